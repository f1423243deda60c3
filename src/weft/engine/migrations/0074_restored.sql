-- A row means that the database is from a backup and no operator has accepted it yet (`weft audit --accept`): until
-- then nothing is changed outside, whatever the clouds remember. `weft restore` creates the table in an older database.
CREATE TABLE IF NOT EXISTS restored (
    one          boolean      PRIMARY KEY DEFAULT true CHECK (one),
    at           timestamptz  NOT NULL,
    -- when the backup was taken, by the clock of the database that it is from
    taken_at     timestamptz  NOT NULL,
    restored_by  text         NOT NULL
);
