-- Adapters that whole readings of their fabric don't show, and since when they have been missing without a gap.
CREATE TABLE adapter_gone (
    fabric    text         NOT NULL,
    port      text         NOT NULL,
    node      text         NOT NULL,
    name      text         NOT NULL,
    since     timestamptz  NOT NULL,
    seen_at   timestamptz  NOT NULL,
    readings  integer      NOT NULL DEFAULT 1,
    PRIMARY KEY (fabric, port)
);
-- Servers that weft reset before it replaces their node.
CREATE TABLE own_reset (
    server_id  text         PRIMARY KEY,
    at         timestamptz  NOT NULL
);
CREATE INDEX resource_server_broken ON resource (owner_id) WHERE kind = 'server' AND state = 'broken';
