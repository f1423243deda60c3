-- A pod can change: its desired graph has generations.

ALTER TABLE pod
    -- of the order and the plan; a worker that holds an older one is refused like one with an older token
    ADD COLUMN generation integer NOT NULL DEFAULT 1,
    -- the newest one that was verified: what a later one added is created, what this one had is repaired
    ADD COLUMN ready_generation integer NOT NULL DEFAULT 0,
    ADD COLUMN ready_at timestamptz,
    -- since when a change is under way
    ADD COLUMN changed_at timestamptz,
    -- since when a waiting order has been in the queue, if not since it was ordered
    ADD COLUMN queued_at timestamptz;
UPDATE pod SET ready_generation = 1 WHERE phase IN ('serving', 'releasing', 'released');
ALTER TABLE resource
    -- the last generation that wanted it as it is described
    ADD COLUMN generation integer NOT NULL DEFAULT 1,
    -- the generation from which on it is no longer wanted; the row stays until it is seen gone, and then as its
    -- tombstone
    ADD COLUMN expunged integer;
ALTER TABLE node_hold
    -- its ports that were in the pod's segments, by the segments' keys: they are read before the node is freed
    ADD COLUMN leaving_ports jsonb NOT NULL DEFAULT '{}',
    -- the generation from which on its pod no longer wants the node; it is freed once it was read back clean
    ADD COLUMN leaving integer;

-- Every generation of a pod's order: what was ordered, by whom, when.
CREATE TABLE pod_generation (
    pod_id      uuid        NOT NULL,
    generation  integer     NOT NULL,
    ordered     jsonb       NOT NULL,
    at          timestamptz NOT NULL,
    by          text        NOT NULL,
    -- the difference in one line
    what        text        NOT NULL,
    PRIMARY KEY (pod_id, generation)
);

-- What was read back of nodes that a pod freed before its end: part of its receipt.
CREATE TABLE given_back (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pod_id      uuid        NOT NULL,
    nodes       text[]      NOT NULL,
    at          timestamptz NOT NULL,
    items       jsonb       NOT NULL
);
CREATE INDEX given_back_pod ON given_back (pod_id);
