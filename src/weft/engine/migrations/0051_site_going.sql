-- Ids of networks, subnets and flavors that what was applied last doesn't have any more, or not like this: nobody may begin
-- to use them, also before a worker comes to remove them.
ALTER TABLE site_desired ADD COLUMN going text[] NOT NULL DEFAULT '{}';
