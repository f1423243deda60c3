-- What was free, and how many orders waited, every ten minutes. The first of any number of workers writes the sample of
-- a period.
CREATE TABLE capacity_sample (
    period   timestamptz  PRIMARY KEY,
    at       timestamptz  NOT NULL,
    -- type of accelerator -> state of a node -> number of nodes
    nodes    jsonb        NOT NULL,
    waiting  integer      NOT NULL
);
