-- For a node that a pod leaves and that isn't seen clean: whether an operator confirmed that nothing runs on it, so
-- that another server may get the addresses and volumes. The node stays held until it is read back clean.
ALTER TABLE node_hold ADD COLUMN cleared boolean NOT NULL DEFAULT false;
