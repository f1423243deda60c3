-- Versions of weft beside each other on one database (docs/decisions/rolling-upgrades.md).
-- After-halves that are being made: processes that don't know one don't work with the database any more.
CREATE TABLE finishing (
    name text        PRIMARY KEY,
    at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- What each version that has worked with the database can read of documents, by a digest.
CREATE TABLE version_seen (
    reader     text        PRIMARY KEY,
    version    text        NOT NULL,
    first_seen timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- Processes at work, what they can read, and how many after-halves each knows.
CREATE TABLE process_seen (
    name    text        PRIMARY KEY,
    role    text        NOT NULL,
    version text        NOT NULL,
    reader  text        NOT NULL,
    halves  integer     NOT NULL,
    seen_at timestamptz NOT NULL
);
-- Which readers couldn't read an owner's rows, and what they found: `woken` by then. Left to newer versions until it is
-- woken once more. Null: none.
ALTER TABLE owner ADD COLUMN left_by jsonb;
