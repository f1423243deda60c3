-- When old records are removed next, and how many have been removed so far.
CREATE TABLE retention (
    one       boolean     PRIMARY KEY DEFAULT true CHECK (one),
    next_at   timestamptz NOT NULL,
    -- when the last round finished
    ended_at  timestamptz,
    -- number of removed rows by kind, in total
    removed   jsonb       NOT NULL DEFAULT '{}'
);
INSERT INTO retention (next_at) VALUES (now());

CREATE INDEX event_at ON event (at);
CREATE INDEX trace_gone ON trace (gone_at) WHERE others;
