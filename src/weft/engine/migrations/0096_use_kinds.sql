-- What accelerators a node had, by which its hours count, once the site describes others: written with the change of the site.
-- Null: as the active site describes it.
ALTER TABLE use_span ADD COLUMN type text, ADD COLUMN accelerators integer;
CREATE INDEX use_undescribed ON use_span (node) WHERE type IS NULL;
