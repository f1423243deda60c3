-- Identifiers of nodes in quarantine or on hold that left the site, so that the same machine isn't assigned under another
-- name: quarantines and holds are by name.
CREATE TABLE kept_machine (
    node  text PRIMARY KEY,
    parts jsonb NOT NULL
);
