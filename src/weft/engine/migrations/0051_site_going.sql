-- Ids of networks, subnets and flavors that the last applied site no longer has, or has with other settings: no new pod
-- may use them, even before a worker deletes them.
ALTER TABLE site_desired ADD COLUMN going text[] NOT NULL DEFAULT '{}';
