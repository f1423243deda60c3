-- Several versions of weft on one database (docs/decisions/rolling-upgrades.md). Second halves of upgrades that are
-- being made: processes that don't know one no longer work with the database.
CREATE TABLE finishing (
    name text        PRIMARY KEY,
    at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- Versions that have worked with the database, by a digest of the documents that they can read.
CREATE TABLE version_seen (
    reader     text        PRIMARY KEY,
    version    text        NOT NULL,
    first_seen timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- Processes at work, what they can read, and how many second halves each knows.
CREATE TABLE process_seen (
    name    text        PRIMARY KEY,
    role    text        NOT NULL,
    version text        NOT NULL,
    reader  text        NOT NULL,
    halves  integer     NOT NULL,
    seen_at timestamptz NOT NULL
);
-- Readers that couldn't read an owner's rows -> its `woken` at that time: they leave it to newer versions until it is
-- woken again. Null: none.
ALTER TABLE owner ADD COLUMN left_by jsonb;
