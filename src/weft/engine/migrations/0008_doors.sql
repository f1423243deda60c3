-- Who did what, by ids, since anyone can choose names. Refused requests of callers other than operators are counted, in
-- one row an hour for each user, project and action, so that repeating them can't push out what was done.
ALTER TABLE audit_log
    ADD COLUMN user_id           text,
    ADD COLUMN user_domain_id    text,
    ADD COLUMN project_domain_id text,
    ADD COLUMN user_agent        text        NOT NULL DEFAULT '',
    ADD COLUMN times             integer     NOT NULL DEFAULT 1,
    ADD COLUMN last_at           timestamptz,
    ADD COLUMN refused_in        timestamptz;
UPDATE audit_log SET last_at = at;
ALTER TABLE audit_log ALTER COLUMN last_at SET NOT NULL;
CREATE UNIQUE INDEX audit_log_refused ON audit_log (user_id, coalesce(project_id, ''), action, refused_in)
    WHERE refused_in IS NOT NULL;
CREATE INDEX audit_log_last_at ON audit_log (last_at);
