-- Who lists the state of a cloud's machines: one of all workers at a time.
CREATE TABLE machine_look (
    cloud text PRIMARY KEY,
    -- Until then nobody else asks: somebody is asking, or has just been answered.
    until timestamptz NOT NULL
);
