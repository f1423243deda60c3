-- The accelerators by which a node's hours count, if the site has described others since: written with the change of
-- the site. Null: as the active site describes the node.
ALTER TABLE use_span ADD COLUMN type text, ADD COLUMN accelerators integer;
CREATE INDEX use_undescribed ON use_span (node) WHERE type IS NULL;
