-- Parts of nodes by their serial numbers, as nodes' own checks reported them: where each was, and which of its checks
-- failed there. A part that moves to another node keeps both.
CREATE TABLE part_stay (
    kind     text         NOT NULL,
    serial   text         NOT NULL,
    since    timestamptz  NOT NULL,
    node     text         NOT NULL,
    place    text         NOT NULL,
    model    text         NOT NULL,
    seen_at  timestamptz  NOT NULL,
    PRIMARY KEY (serial, kind, since)
);
CREATE INDEX part_stay_seen ON part_stay (seen_at);
CREATE TABLE part_failure (
    id      bigint       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind    text         NOT NULL,
    serial  text         NOT NULL,
    at      timestamptz  NOT NULL,
    node    text         NOT NULL,
    place   text         NOT NULL,
    code    text         NOT NULL,
    reason  text         NOT NULL
);
CREATE INDEX part_failure_serial ON part_failure (serial, id);
CREATE INDEX part_failure_at ON part_failure (at);
