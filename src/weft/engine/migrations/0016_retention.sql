-- Old records are removed: when that is done next, and how much has been removed by now.
CREATE TABLE retention (
    one       boolean     PRIMARY KEY DEFAULT true CHECK (one),
    next_at   timestamptz NOT NULL,
    -- the last round that came to its end
    ended_at  timestamptz,
    -- rows by what they were, ever since
    removed   jsonb       NOT NULL DEFAULT '{}'
);
INSERT INTO retention (next_at) VALUES (now());

CREATE INDEX event_at ON event (at);
CREATE INDEX trace_gone ON trace (gone_at) WHERE others;
