-- What a change of them is based on (`If-Match`). One sequence for all, so that one that was deleted and made again under its name
-- has another number.
CREATE SEQUENCE revision;
ALTER TABLE webhook ADD COLUMN revision bigint NOT NULL DEFAULT nextval('revision');
ALTER TABLE reservation ADD COLUMN revision bigint NOT NULL DEFAULT nextval('revision');
ALTER TABLE acceptance ADD COLUMN revision bigint NOT NULL DEFAULT nextval('revision');
