-- Number of requested releases, and of quarantines that began, changed or ended. A dump that lacks only these would
-- revive pods, or assign an unclean node to the next tenant, so they count like claims (`epoch`). Written when a
-- transaction commits, in one row per connection, so that no transaction waits for it while it holds other locks.
CREATE TABLE epoch_end (
    part    smallint PRIMARY KEY,
    number  bigint NOT NULL
);

-- Names of the notes in the clouds, each recorded before its note was written: a database without a note's name isn't
-- the one that wrote it, however far it has counted since.
CREATE TABLE epoch_mark (
    cloud   text NOT NULL,
    mark    uuid NOT NULL,
    number  bigint NOT NULL,
    PRIMARY KEY (cloud, mark)
);
INSERT INTO epoch_mark (cloud, mark, number) SELECT cloud, life, number FROM epoch;

-- When an operator last accepted the database, after it had been restored.
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
