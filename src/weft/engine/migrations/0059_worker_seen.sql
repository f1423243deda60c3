-- When each worker process last gave a sign of life, by the database's clock: any API process sees which are there.
CREATE TABLE worker_seen (
    name     text PRIMARY KEY,
    seen_at  timestamptz NOT NULL
);
