-- The last event of each project that retention has removed: a reader whose position is before it has missed events, and is
-- shown that (a follower that was away, a webhook that was disabled).
CREATE TABLE event_removed (
    project_id text   PRIMARY KEY,
    life       integer NOT NULL,
    xact       xid8    NOT NULL,
    sequence   bigint  NOT NULL
);
CREATE INDEX event_removed_last ON event_removed (life, xact, sequence);

-- When a member last had a test message sent: a project can't make weft send any number of them.
ALTER TABLE webhook ADD COLUMN tested_at timestamptz;
