-- Which worker lists the state of a cloud's machines: one at a time.
CREATE TABLE machine_look (
    cloud text PRIMARY KEY,
    -- Until then no other worker asks: one is asking, or has just had an answer.
    until timestamptz NOT NULL
);
