-- When each worker process last sent a heartbeat, by the database's clock, so that any API process sees which are
-- alive.
CREATE TABLE worker_seen (
    name     text PRIMARY KEY,
    seen_at  timestamptz NOT NULL
);
