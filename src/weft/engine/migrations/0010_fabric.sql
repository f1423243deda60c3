-- Partitions are read by fabric at each change of one: few rows among many.
CREATE INDEX resource_partition ON resource (pod_id) WHERE kind = 'partition';

-- P_Keys of released pods that a standby manager may still have: it could not be asked, or its file could not be written.
-- They aren't assigned again before that manager was read without them.
CREATE TABLE stale_key (
    fabric   text        NOT NULL,
    manager  text        NOT NULL,
    number   integer     NOT NULL,
    pod_id   uuid        NOT NULL,
    reason   text        NOT NULL,
    since    timestamptz NOT NULL,
    PRIMARY KEY (fabric, manager, number)
);
