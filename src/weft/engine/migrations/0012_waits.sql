-- A visit makes one attempt and hands the owner back, so what it kept in memory while waiting is now in rows.

-- When a resource entered its state, which decides how long to wait before it is observed again, and when it has taken
-- too long.
ALTER TABLE resource ADD COLUMN since timestamptz;
UPDATE resource SET since = now() WHERE state NOT IN ('wanted', 'settled', 'absent');
-- The service accepted the request to remove it.
ALTER TABLE resource ADD COLUMN asked boolean NOT NULL DEFAULT false;

-- A number of the pod that something else uses, and the resource that found out: everything is deleted first.
ALTER TABLE pod ADD COLUMN taken jsonb;
-- When the occupants of the pod's nodes were last read: while servers boot, not every visit needs to read them.
ALTER TABLE pod ADD COLUMN watched_at timestamptz;
