-- What a row described before the resource was recreated, as [{id, facts}], the oldest first: a guest of each may run on.
ALTER TABLE resource ADD COLUMN former jsonb NOT NULL DEFAULT '[]';
