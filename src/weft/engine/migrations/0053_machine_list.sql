-- All machines of a cloud are listed every few seconds, and in between it is asked which of them changed last: when the
-- next listing is due.
ALTER TABLE machine_look ADD COLUMN list_at timestamptz NOT NULL DEFAULT '-infinity';
