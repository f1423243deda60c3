-- A visit makes one attempt and lets go: what it used to keep in its own hands while it waited stands in rows.

-- When a resource came into its state: how long to wait before the next look, and when it has taken too long.
ALTER TABLE resource ADD COLUMN since timestamptz;
UPDATE resource SET since = now() WHERE state NOT IN ('wanted', 'settled', 'absent');
-- The outside took the request to remove it.
ALTER TABLE resource ADD COLUMN asked boolean NOT NULL DEFAULT false;

-- A number of the pod turned out to be somebody else's, and which resource said so: all is taken away first.
ALTER TABLE pod ADD COLUMN taken jsonb;
-- When it was last looked who is on the pod's nodes: while servers boot that need not be each time.
ALTER TABLE pod ADD COLUMN watched_at timestamptz;
