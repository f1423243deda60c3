-- What the sweep needs: when it runs next, what it found, and when it last searched for each released pod; and how a
-- pod was abandoned.

-- The worker that advances `next_at` sweeps.
CREATE TABLE sweep (
    one       boolean     PRIMARY KEY DEFAULT true CHECK (one),
    next_at   timestamptz NOT NULL,
    -- the last sweep that finished, and what it could not read (empty: it read everything)
    ended_at  timestamptz,
    unread    text        NOT NULL DEFAULT ''
);
INSERT INTO sweep (next_at) VALUES (now());

-- Something of a released pod that was found outside after its receipt was signed.
CREATE TABLE trace (
    id            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pod_id        uuid        NOT NULL,
    kind          text        NOT NULL,
    place         text        NOT NULL,
    -- outside id, or the port and the key
    subject       text        NOT NULL,
    what          text        NOT NULL,
    -- it belongs to someone else, on a node that was the pod's: it doesn't make the receipt wrong
    others        boolean     NOT NULL DEFAULT false,
    found_at      timestamptz NOT NULL,
    -- when it was seen gone again; null: as far as weft knows it still exists
    gone_at       timestamptz,
    UNIQUE (pod_id, kind, place, subject)
);
CREATE INDEX trace_found ON trace (found_at);

ALTER TABLE pod
    -- when the sweep last searched for each thing of a released pod by itself
    ADD COLUMN swept_at timestamptz,
    -- an operator abandons a release that can't finish: user, reason and time
    ADD COLUMN abandoned_by text,
    ADD COLUMN abandoned_why text,
    ADD COLUMN abandoned_at timestamptz;
CREATE INDEX pod_released ON pod (released_at) WHERE state = 'RELEASED';
-- Finds the owner of a thing outside by its id.
CREATE INDEX resource_outside ON resource (outside_id);
