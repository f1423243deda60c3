-- A visit makes one attempt and hands the owner back: what it used to keep in memory while it waited is in rows.

-- When a resource came into its state: how long to wait before the next look, and when it has taken too long.
ALTER TABLE resource ADD COLUMN since timestamptz;
UPDATE resource SET since = now() WHERE state NOT IN ('wanted', 'settled', 'absent');
-- The service accepted the request to remove it.
ALTER TABLE resource ADD COLUMN asked boolean NOT NULL DEFAULT false;

-- Someone else uses a number of the pod, and which resource found out: everything is removed first.
ALTER TABLE pod ADD COLUMN taken jsonb;
-- When the occupants of the pod's nodes were last read: while servers boot not every visit needs to.
ALTER TABLE pod ADD COLUMN watched_at timestamptz;
