-- The loop works on owners of every kind. What it needs of each is in `owner`, and columns with the id of an owner, a pod
-- or another, are named so. Numbers of migrations are unique from here on (tests/engine/base/test_migration.py).

ALTER TABLE owner
    -- of what is wanted of it; a worker that holds an older one is refused like one with an older token
    ADD COLUMN generation integer NOT NULL DEFAULT 1,
    -- the newest one that was seen to be true, and when; since when what a later one asks for is under way
    ADD COLUMN ready_generation integer NOT NULL DEFAULT 0,
    ADD COLUMN ready_at timestamptz,
    ADD COLUMN changed_at timestamptz,
    -- someone else uses a number of it, and which resource found out
    ADD COLUMN taken jsonb,
    ADD COLUMN watched_at timestamptz,
    ADD COLUMN abandoned_by text,
    ADD COLUMN abandoned_why text,
    ADD COLUMN abandoned_at timestamptz;

-- A pod has a site since it has a plan: what has none is nothing to the loop.
UPDATE pod SET site = '' WHERE plan IS NOT NULL AND site IS NULL;

ALTER TABLE resource RENAME COLUMN pod_id TO owner_id;
ALTER TABLE event RENAME COLUMN pod_id TO owner_id;
ALTER TABLE receipt RENAME COLUMN pod_id TO owner_id;
ALTER TABLE trace RENAME COLUMN pod_id TO owner_id;
ALTER TABLE number_hold RENAME COLUMN pod_id TO owner_id;
ALTER TABLE stale_number RENAME COLUMN pod_id TO owner_id;
ALTER TABLE subnet_hold RENAME COLUMN pod_id TO owner_id;
