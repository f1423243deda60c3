-- What a node must be accepted for before it is assigned again, such as burn-in or new firmware. Each hold ends by its
-- own name, so that no one ends one that someone else waits for.
CREATE TABLE acceptance (
    node     text NOT NULL,
    what     text NOT NULL,
    since    timestamptz NOT NULL,
    held_by  text NOT NULL,
    PRIMARY KEY (node, what)
);

CREATE FUNCTION note_stop() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO capacity_change (what, name) SELECT DISTINCT 'stop', node FROM changed;
    RETURN NULL;
END $$;
CREATE TRIGGER acceptance_came AFTER INSERT ON acceptance REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_stop();
CREATE TRIGGER acceptance_went AFTER DELETE ON acceptance REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_stop();
CREATE TRIGGER acceptance_was AFTER UPDATE ON acceptance REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_stop();
CREATE TRIGGER acceptance_is AFTER UPDATE ON acceptance REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_stop();
CREATE TRIGGER acceptance_emptied AFTER TRUNCATE ON acceptance FOR EACH STATEMENT EXECUTE FUNCTION note_all();

-- A dump that lacks a hold would assign a node that isn't accepted: holds count like quarantines.
CREATE CONSTRAINT TRIGGER acceptance_counts AFTER INSERT OR DELETE OR UPDATE ON acceptance
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION count_end();
