-- The node's own check that failed, if that is why the node fails.
ALTER TABLE node_failure ADD COLUMN what text NOT NULL DEFAULT '';
