-- Events of all pods of a project in one order in which none can appear later: by the transaction that wrote them, of which
-- only those are delivered below which no transaction is in progress. Numbers of transactions are one server's: a database
-- that was restored, or failed over, begins another life, and readers of the former one are refused.
CREATE TABLE event_life (
    one      boolean     PRIMARY KEY DEFAULT true CHECK (one),
    number   integer     NOT NULL DEFAULT 1,
    -- names this life, so that a position in another copy of the database isn't taken for one in this copy
    mark     text        NOT NULL DEFAULT substr(md5(gen_random_uuid()::text), 1, 8),
    -- the server, its timeline and the database in it
    place    text        NOT NULL DEFAULT '',
    since    timestamptz NOT NULL DEFAULT now()
);
INSERT INTO event_life (one) VALUES (true);

ALTER TABLE event
    -- the pod's project; events of other owners (a tenant's network, the site) have none, and aren't in the streams
    ADD COLUMN project_id text,
    ADD COLUMN life integer NOT NULL DEFAULT 1,
    ADD COLUMN xact xid8 NOT NULL DEFAULT pg_current_xact_id();
UPDATE event e SET project_id = p.project_id FROM pod p WHERE p.id = e.owner_id;
-- An expression, so that a project's events are never looked for among those of all.
CREATE INDEX event_stream ON event ((project_id IS NOT NULL), life, xact, sequence);
CREATE INDEX event_project ON event (project_id, life, xact, sequence) WHERE project_id IS NOT NULL;

-- No writer of events can forget it. One that writes the pod in the same statement gives the project itself: this doesn't
-- see the pod yet.
CREATE FUNCTION note_event_place() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.project_id IS NULL THEN
        SELECT project_id INTO NEW.project_id FROM pod WHERE id = NEW.owner_id;
    END IF;
    SELECT number INTO NEW.life FROM event_life;
    RETURN NEW;
END $$;
CREATE TRIGGER event_place BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION note_event_place();

-- A process of an earlier version doesn't provide it.
CREATE FUNCTION note_events_of_new_pod() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE event SET project_id = NEW.project_id WHERE owner_id = NEW.id AND project_id IS NULL;
    RETURN NULL;
END $$;
CREATE TRIGGER events_of_new_pod AFTER INSERT ON pod FOR EACH ROW EXECUTE FUNCTION note_events_of_new_pod();
