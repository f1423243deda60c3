-- Version of weft of each worker; empty: one from before it was written.
ALTER TABLE worker_seen ADD COLUMN version text NOT NULL DEFAULT '';
