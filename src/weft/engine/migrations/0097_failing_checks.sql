-- Which check of its own failed, of a node that fails because of one.
ALTER TABLE node_failure ADD COLUMN what text NOT NULL DEFAULT '';
