-- Nodes that operators want to empty: they get no new orders until the drain ends. Pods stay until they end.
CREATE TABLE drain (
    node        text PRIMARY KEY,
    since       timestamptz NOT NULL,
    drained_by  text NOT NULL,
    -- when the node should be empty; null: no time was given
    until_at    timestamptz,
    -- for operators; and for the projects whose pods are there
    reason      text NOT NULL,
    public      text NOT NULL
);
CREATE TRIGGER drain_came AFTER INSERT ON drain REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_stop();
CREATE TRIGGER drain_went AFTER DELETE ON drain REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_stop();
CREATE TRIGGER drain_was AFTER UPDATE ON drain REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_stop();
CREATE TRIGGER drain_is AFTER UPDATE ON drain REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_stop();
CREATE TRIGGER drain_emptied AFTER TRUNCATE ON drain FOR EACH STATEMENT EXECUTE FUNCTION note_all();

-- A dump that lacks a drain would assign a node that is about to be switched off.
CREATE CONSTRAINT TRIGGER drain_counts AFTER INSERT OR DELETE OR UPDATE ON drain
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION count_end();
