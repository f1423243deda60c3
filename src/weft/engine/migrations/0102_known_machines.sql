-- What the machine was known to be, last: a report that can't read a number or a version doesn't end the comparison with
-- those before it. Null: as the last document says.
ALTER TABLE node_check ADD COLUMN known jsonb;
