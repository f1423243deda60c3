-- How many releases were requested, and how often a quarantine began, changed or ended. A dump that lacks only these would
-- revive pods, or assign a node that isn't clean to the next tenant: they count like claims (`epoch`). Written when the
-- transaction commits, in one row per connection, so that no transaction waits for it while holding other locks.
CREATE TABLE epoch_end (
    part    smallint PRIMARY KEY,
    number  bigint NOT NULL
);

-- What notes in the clouds were named, each written down before its note was: a database that doesn't have the name of a
-- note isn't the one that wrote it, however far it has counted by itself since.
CREATE TABLE epoch_mark (
    cloud   text NOT NULL,
    mark    uuid NOT NULL,
    number  bigint NOT NULL,
    PRIMARY KEY (cloud, mark)
);
INSERT INTO epoch_mark (cloud, mark, number) SELECT cloud, life, number FROM epoch;

-- When an operator accepted the database last, after it had been restored.
ALTER TABLE epoch ADD COLUMN accepted_at timestamptz;

CREATE FUNCTION count_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO epoch_end (part, number) VALUES (pg_backend_pid() % 16, 1)
    ON CONFLICT (part) DO UPDATE SET number = epoch_end.number + 1;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER pod_ends AFTER UPDATE OF wanted ON pod DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.wanted = 'present' AND NEW.wanted = 'absent' AND NEW.plan IS NOT NULL) EXECUTE FUNCTION count_end();
CREATE CONSTRAINT TRIGGER owner_ends AFTER UPDATE OF wanted ON owner DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.wanted = 'present' AND NEW.wanted = 'absent') EXECUTE FUNCTION count_end();
CREATE CONSTRAINT TRIGGER quarantine_counts AFTER INSERT OR DELETE OR UPDATE ON quarantine
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION count_end();
