-- A site is activated; "apply" means creating its networks in the cloud.
ALTER TABLE site RENAME COLUMN applied_at TO activated_at;
ALTER TABLE site RENAME COLUMN applied_by TO activated_by;
