-- Revisions like those of webhooks, reservations and holds: what the end of a drain or quarantine is based on
-- (`If-Match`).
ALTER TABLE drain ADD COLUMN revision bigint NOT NULL DEFAULT nextval('revision');
ALTER TABLE quarantine ADD COLUMN revision bigint NOT NULL DEFAULT nextval('revision');
