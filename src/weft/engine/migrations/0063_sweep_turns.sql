-- Where the last round of the sweep ended, for projects with more things to delete than one round does.
ALTER TABLE sweep ADD COLUMN turns jsonb NOT NULL DEFAULT '{}';
