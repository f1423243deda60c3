-- What a row stood for before it was made anew, as [{id, facts}], the oldest first: a guest of each may run on.
ALTER TABLE resource ADD COLUMN former jsonb NOT NULL DEFAULT '[]';
