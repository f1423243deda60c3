-- Revisions, which a change is based on (`If-Match`). One sequence for all, so that an object that was deleted and
-- created again under its name has another number.
CREATE SEQUENCE revision;
ALTER TABLE webhook ADD COLUMN revision bigint NOT NULL DEFAULT nextval('revision');
ALTER TABLE reservation ADD COLUMN revision bigint NOT NULL DEFAULT nextval('revision');
ALTER TABLE acceptance ADD COLUMN revision bigint NOT NULL DEFAULT nextval('revision');
