-- Leases in time: orders that wait, what is promised to them, and what is set aside for a project.

-- A waiting order has no plan yet, so the order is in a column of its own.
ALTER TABLE pod
    ADD COLUMN ordered jsonb,
    ALTER COLUMN plan DROP NOT NULL;
UPDATE pod SET ordered = plan -> 'order';
ALTER TABLE pod
    ALTER COLUMN ordered SET NOT NULL,
    DROP COLUMN nodes;
ALTER TABLE pod
    ADD COLUMN nodes integer GENERATED ALWAYS AS ((ordered -> 'nodes' ->> 'count')::integer) STORED,
    -- the sequence in which pods were ordered, whatever the clocks of several servers say
    ADD COLUMN arrival bigint GENERATED ALWAYS AS IDENTITY,
    -- when it got its nodes; the lease's duration counts from then
    ADD COLUMN placed_at timestamptz,
    -- whether the warning that the lease ends soon was given
    ADD COLUMN lease_warned boolean NOT NULL DEFAULT false,
    -- the state in which a pod failed, for a retry
    ADD COLUMN failed_from text,
    -- of a waiting order: when it may start, whether that was booked with the order, its place in the queue (NULL: it
    -- has a booking and doesn't queue), and when it is expected to start
    ADD COLUMN not_before timestamptz,
    ADD COLUMN fixed boolean NOT NULL DEFAULT false,
    ADD COLUMN position integer,
    ADD COLUMN expected_start timestamptz;
UPDATE pod SET placed_at = created_at;
CREATE INDEX pod_waiting ON pod (arrival) WHERE plan IS NULL AND state = 'PENDING';

-- Nodes that a waiting order will have.
CREATE TABLE promise (
    pod_id    uuid        PRIMARY KEY,
    nodes     text[]      NOT NULL,
    start_at  timestamptz NOT NULL,
    end_at    timestamptz
);

-- Nodes that only one project may have in a period.
CREATE TABLE reservation (
    name        text        PRIMARY KEY,
    project_id  text        NOT NULL,
    nodes       text[]      NOT NULL,
    start_at    timestamptz NOT NULL,
    end_at      timestamptz,
    reason      text        NOT NULL DEFAULT '',
    created_by  text        NOT NULL,
    created_at  timestamptz NOT NULL
);

-- When the queue is due again; the worker that advances `next_at` processes it.
CREATE TABLE queue (
    one      boolean     PRIMARY KEY DEFAULT true CHECK (one),
    next_at  timestamptz NOT NULL
);
INSERT INTO queue (next_at) VALUES (now());
