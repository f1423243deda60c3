-- What a row described before the resource was recreated, as [{id, facts}], the oldest first: the guest of each may
-- still run.
ALTER TABLE resource ADD COLUMN former jsonb NOT NULL DEFAULT '[]';
