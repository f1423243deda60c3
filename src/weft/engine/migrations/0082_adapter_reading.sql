-- When a fabric's adapters were last read, or begun to be: a reading asks the whole fabric, so one worker makes it.
CREATE TABLE adapter_reading (
    fabric  text         PRIMARY KEY,
    at      timestamptz  NOT NULL
);
