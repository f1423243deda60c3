-- Parts of sites: rows of a long table as JSON text, named by the SHA-256 of their bytes and shared by all generations
-- that have them. A generation's document names them in its order.
CREATE TABLE site_part (
    digest      text        PRIMARY KEY,
    body        bytea       NOT NULL,
    size        integer     NOT NULL,
    -- the newest generation that names it; null: none yet, it was sent for a future one
    generation  integer,
    touched_at  timestamptz NOT NULL
);
CREATE INDEX site_part_loose ON site_part (touched_at) INCLUDE (size) WHERE generation IS NULL;
CREATE INDEX site_part_generation ON site_part (generation) WHERE generation IS NOT NULL;
