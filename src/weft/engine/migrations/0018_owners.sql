-- The loop works on owners of every kind. What it needs of each is in `owner`, and columns with the id of any owner are
-- named owner_id. Numbers of migrations are unique from here on (tests/engine/base/test_migration.py).

ALTER TABLE owner
    -- generation of what is desired; a worker that holds an older one is refused like one with an older token
    ADD COLUMN generation integer NOT NULL DEFAULT 1,
    -- the newest one that was verified, and when; and since when a later one is under way
    ADD COLUMN ready_generation integer NOT NULL DEFAULT 0,
    ADD COLUMN ready_at timestamptz,
    ADD COLUMN changed_at timestamptz,
    -- a number of it that something else uses, and the resource that found out
    ADD COLUMN taken jsonb,
    ADD COLUMN watched_at timestamptz,
    ADD COLUMN abandoned_by text,
    ADD COLUMN abandoned_why text,
    ADD COLUMN abandoned_at timestamptz;

-- A pod has a site once it has a plan; the loop ignores owners without one.
UPDATE pod SET site = '' WHERE plan IS NOT NULL AND site IS NULL;

ALTER TABLE resource RENAME COLUMN pod_id TO owner_id;
ALTER TABLE event RENAME COLUMN pod_id TO owner_id;
ALTER TABLE receipt RENAME COLUMN pod_id TO owner_id;
ALTER TABLE trace RENAME COLUMN pod_id TO owner_id;
ALTER TABLE number_hold RENAME COLUMN pod_id TO owner_id;
ALTER TABLE stale_number RENAME COLUMN pod_id TO owner_id;
ALTER TABLE subnet_hold RENAME COLUMN pod_id TO owner_id;
