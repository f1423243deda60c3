-- What was last known about the machine: a report that can't read a number or a version doesn't end the comparison with
-- earlier ones. Null: as the last document says.
ALTER TABLE node_check ADD COLUMN known jsonb;
