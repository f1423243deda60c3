-- Nodes whose host the cloud reports as down, and since when it has been read as down without a gap.
CREATE TABLE host_down (
    node         text         PRIMARY KEY,
    cloud        text         NOT NULL,
    since        timestamptz  NOT NULL,
    seen_at      timestamptz  NOT NULL,
    -- when pods there and the node's history were notified; null: not yet
    reported_at  timestamptz
);
