-- When a cloud's hosts were last read, and the nodes for which that said neither up nor down: what isn't read isn't
-- healthy.
CREATE TABLE host_reading (
    cloud    text         PRIMARY KEY,
    at       timestamptz  NOT NULL,
    unknown  text[]       NOT NULL
);
