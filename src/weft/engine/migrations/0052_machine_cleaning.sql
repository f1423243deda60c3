-- Automated cleanings of machines as weft observed them (weft.planning.watching): Ironic's history lacks their steps.
CREATE TABLE machine_cleaning (
    cloud text NOT NULL,
    machine text NOT NULL,
    plan text[] NOT NULL,
    agent text NOT NULL,
    since timestamptz NOT NULL,
    looked timestamptz NOT NULL,
    -- The node's provision_updated_at, once it was available after it; empty before.
    ended text NOT NULL,
    PRIMARY KEY (cloud, machine)
);
