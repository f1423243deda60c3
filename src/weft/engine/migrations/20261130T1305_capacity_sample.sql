-- What was free, and how many orders waited, every ten minutes: any number of workers may write, the first one of a period does.
CREATE TABLE capacity_sample (
    period   timestamptz  PRIMARY KEY,
    at       timestamptz  NOT NULL,
    -- type of accelerators -> state of a node -> number of nodes
    nodes    jsonb        NOT NULL,
    waiting  integer      NOT NULL
);
