-- Where the last round of the sweep ended, of projects with more things to go than one round asks.
ALTER TABLE sweep ADD COLUMN turns jsonb NOT NULL DEFAULT '{}';
