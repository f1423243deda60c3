-- What each fabric's managers last reported, for the metrics.
CREATE TABLE fabric_status (
    fabric text PRIMARY KEY,
    known boolean NOT NULL,
    problems integer NOT NULL,
    port_errors integer,
    read_at timestamptz NOT NULL
);
