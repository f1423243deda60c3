-- Changes of capacity, so that a process that has counted it only reads these again. Only triggers write them, so that
-- no writer can forget to (docs/decisions/capacity-is-counted-once.md).

CREATE TABLE capacity_change (
    -- a process that has counted by a snapshot reads what was written by transactions that the snapshot doesn't see, in
    -- any order
    xact  xid8 NOT NULL DEFAULT pg_current_xact_id(),
    -- owner: all that it holds or is promised, and what is read of a pod's row; quarantine; reservation
    what  text NOT NULL,
    -- the owner's id, the node, the reservation's name
    name  text NOT NULL
);
CREATE INDEX capacity_change_xact ON capacity_change (xact);

CREATE TABLE capacity_log (
    one        boolean     PRIMARY KEY DEFAULT true CHECK (one),
    -- changes of transactions below this one may be gone: a process that counted before reads everything
    below      xid8        NOT NULL DEFAULT '0',
    -- what `below` will be, and since when that is known
    mark       xid8        NOT NULL DEFAULT '0',
    marked_at  timestamptz NOT NULL DEFAULT now()
);
INSERT INTO capacity_log DEFAULT VALUES;

CREATE FUNCTION note_pods() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO capacity_change (what, name) SELECT DISTINCT 'owner', pod_id::text FROM changed;
    RETURN NULL;
END $$;
CREATE FUNCTION note_owners() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO capacity_change (what, name) SELECT DISTINCT 'owner', owner_id::text FROM changed;
    RETURN NULL;
END $$;
CREATE FUNCTION note_quarantine() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO capacity_change (what, name) SELECT DISTINCT 'quarantine', node FROM changed;
    RETURN NULL;
END $$;
CREATE FUNCTION note_reservation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO capacity_change (what, name) SELECT DISTINCT 'reservation', name FROM changed;
    RETURN NULL;
END $$;
CREATE FUNCTION note_all() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE capacity_log SET below = (pg_current_xact_id()::text::bigint + 1)::text::xid8;
    RETURN NULL;
END $$;

DO $$
DECLARE
    it record;
BEGIN
    FOR it IN SELECT * FROM (VALUES
        ('node_hold', 'note_pods'), ('part_hold', 'note_pods'), ('function_hold', 'note_pods'), ('promise', 'note_pods'),
        ('number_hold', 'note_owners'), ('stale_number', 'note_owners'), ('subnet_hold', 'note_owners'),
        ('quarantine', 'note_quarantine'), ('reservation', 'note_reservation')
    ) AS t (name, note) LOOP
        EXECUTE format('CREATE TRIGGER %1$s_came AFTER INSERT ON %1$I REFERENCING NEW TABLE AS changed
            FOR EACH STATEMENT EXECUTE FUNCTION %2$I()', it.name, it.note);
        EXECUTE format('CREATE TRIGGER %1$s_went AFTER DELETE ON %1$I REFERENCING OLD TABLE AS changed
            FOR EACH STATEMENT EXECUTE FUNCTION %2$I()', it.name, it.note);
        -- An update may change whose it is: both are noted.
        EXECUTE format('CREATE TRIGGER %1$s_was AFTER UPDATE ON %1$I REFERENCING OLD TABLE AS changed
            FOR EACH STATEMENT EXECUTE FUNCTION %2$I()', it.name, it.note);
        EXECUTE format('CREATE TRIGGER %1$s_is AFTER UPDATE ON %1$I REFERENCING NEW TABLE AS changed
            FOR EACH STATEMENT EXECUTE FUNCTION %2$I()', it.name, it.note);
        EXECUTE format('CREATE TRIGGER %1$s_emptied AFTER TRUNCATE ON %1$I
            FOR EACH STATEMENT EXECUTE FUNCTION note_all()', it.name);
    END LOOP;
END $$;

-- Notes what is read of a pod's own row with its holds. A trigger for each row, since an UPDATE of `owner` fires no
-- statement's trigger here.
CREATE FUNCTION note_pod() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO capacity_change (what, name) VALUES ('owner', coalesce(NEW.id, OLD.id)::text);
    RETURN NULL;
END $$;
CREATE TRIGGER pod_capacity_row AFTER INSERT OR DELETE ON pod FOR EACH ROW EXECUTE FUNCTION note_pod();
CREATE TRIGGER pod_capacity AFTER UPDATE ON pod FOR EACH ROW WHEN (
    (OLD.name, OLD.project_id, OLD.lease_end, OLD.wanted, OLD.apart_from, OLD.exclusive, OLD.bisection_gbps, OLD.placed_at,
        OLD.created_at)
    IS DISTINCT FROM
    (NEW.name, NEW.project_id, NEW.lease_end, NEW.wanted, NEW.apart_from, NEW.exclusive, NEW.bisection_gbps, NEW.placed_at,
        NEW.created_at))
    EXECUTE FUNCTION note_pod();
CREATE TRIGGER pod_emptied AFTER TRUNCATE ON pod FOR EACH STATEMENT EXECUTE FUNCTION note_all();

-- Finds what an owner has.
CREATE INDEX part_hold_pod ON part_hold (pod_id);
CREATE INDEX stale_number_owner ON stale_number (owner_id);
