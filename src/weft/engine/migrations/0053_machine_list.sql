-- When the next listing of all machines of a cloud is due, which is made every few seconds; in between, only those that
-- changed last are asked for.
ALTER TABLE machine_look ADD COLUMN list_at timestamptz NOT NULL DEFAULT '-infinity';
