-- Each change of a partition reads those of its fabric, which are few rows among many.
CREATE INDEX resource_partition ON resource (pod_id) WHERE kind = 'partition';

-- P_Keys of released pods that a standby manager may still have, because it could not be asked or its file could not be
-- written. They aren't assigned again until a reading of that manager no longer shows them.
CREATE TABLE stale_key (
    fabric   text        NOT NULL,
    manager  text        NOT NULL,
    number   integer     NOT NULL,
    pod_id   uuid        NOT NULL,
    reason   text        NOT NULL,
    since    timestamptz NOT NULL,
    PRIMARY KEY (fabric, manager, number)
);
