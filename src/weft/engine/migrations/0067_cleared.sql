-- A node that a pod leaves and that isn't seen clean: an operator said that nothing runs on it, so its server's addresses and
-- volumes may be another one's. It stays held until it is read back clean.
ALTER TABLE node_hold ADD COLUMN cleared boolean NOT NULL DEFAULT false;
