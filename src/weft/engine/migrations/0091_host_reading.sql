-- When a cloud's hosts were last read, and of which nodes that said neither up nor down: what isn't read is not healthy.
CREATE TABLE host_reading (
    cloud    text         PRIMARY KEY,
    at       timestamptz  NOT NULL,
    unknown  text[]       NOT NULL
);
