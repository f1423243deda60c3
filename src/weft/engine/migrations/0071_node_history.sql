-- What happened to each node, by its name; kept when the node leaves the site. Only triggers write which pods came and
-- went, so that no writer can forget to. Names are stored, since rows of pods may be deleted earlier.
CREATE TABLE node_history (
    node        text         NOT NULL,
    sequence    bigint       GENERATED ALWAYS AS IDENTITY,
    at          timestamptz  NOT NULL,
    type        text         NOT NULL,
    -- a message with its code, as in `event`
    message     jsonb        NOT NULL,
    -- user; empty: weft
    by          text         NOT NULL DEFAULT '',
    pod_id      uuid,
    pod         text,
    project_id  text,
    -- no index has only the numbers: a page of a node's history would be searched among all
    PRIMARY KEY (node, sequence)
);
CREATE INDEX node_history_at ON node_history (at);

CREATE FUNCTION node_message(code text, params jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object('code', code, 'params', jsonb_strip_nulls(params))
$$;

CREATE FUNCTION note_node_came() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO node_history (node, at, type, message, pod_id, pod, project_id)
    SELECT c.node, c.since, 'pod', node_message(CASE WHEN c.spare THEN 'NODE_KEPT_AS_SPARE' ELSE 'NODE_GIVEN' END,
        jsonb_build_object('pod', o.name, 'project', o.project_id)), c.pod_id, o.name, o.project_id
    FROM changed c LEFT JOIN owner o ON o.id = c.pod_id ORDER BY c.node;
    RETURN NULL;
END $$;
CREATE TRIGGER node_came AFTER INSERT ON node_hold REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_node_came();

-- A node in quarantine because of the pod wasn't seen clean.
CREATE FUNCTION note_node_went() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO node_history (node, at, type, message, pod_id, pod, project_id)
    SELECT c.node, now(), 'pod', node_message(CASE WHEN q.node IS NULL THEN 'NODE_FREED' ELSE 'NODE_FREED_UNCLEAN' END,
        jsonb_build_object('pod', o.name, 'project', o.project_id)), c.pod_id, o.name, o.project_id
    FROM changed c LEFT JOIN owner o ON o.id = c.pod_id
        LEFT JOIN quarantine_pod q ON (q.node, q.pod_id) = (c.node, c.pod_id) ORDER BY c.node;
    RETURN NULL;
END $$;
CREATE TRIGGER node_went AFTER DELETE ON node_hold REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_node_went();

CREATE FUNCTION note_node_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO node_history (node, at, type, message, pod_id, pod, project_id)
    SELECT c.node, now(), 'pod', node_message(CASE WHEN c.leaving IS NULL THEN 'NODE_SPARE_USED' ELSE 'NODE_LEAVING' END,
        jsonb_build_object('pod', o.name, 'project', o.project_id)), c.pod_id, o.name, o.project_id
    FROM changed c JOIN before b USING (node, pod_id) LEFT JOIN owner o ON o.id = c.pod_id
    WHERE (b.leaving IS NULL AND c.leaving IS NOT NULL) OR (b.spare AND NOT c.spare AND c.leaving IS NULL)
    ORDER BY c.node;
    RETURN NULL;
END $$;
CREATE TRIGGER node_changed AFTER UPDATE ON node_hold REFERENCING OLD TABLE AS before NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_node_changed();

-- Slots on shared hosts (Poplar servers, nodes of controllers): a pod comes with its first, and goes with its last.
CREATE FUNCTION note_slots_came() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO node_history (node, at, type, message, pod_id, pod, project_id)
    SELECT substr(c.space, 6), now(), 'pod', node_message('NODE_GIVEN',
        jsonb_build_object('pod', o.name, 'project', o.project_id)), o.id, o.name, o.project_id
    FROM (SELECT space, owner_id, count(*) AS number FROM changed WHERE space LIKE 'host/%' GROUP BY space, owner_id) c
        JOIN owner o ON o.id = c.owner_id
    WHERE c.number = (SELECT count(*) FROM number_hold n WHERE (n.space, n.owner_id) = (c.space, c.owner_id))
    ORDER BY c.space;
    RETURN NULL;
END $$;
CREATE TRIGGER slots_came AFTER INSERT ON number_hold REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_slots_came();

CREATE FUNCTION note_slots_went() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO node_history (node, at, type, message, pod_id, pod, project_id)
    SELECT substr(c.space, 6), now(), 'pod', node_message('NODE_FREED',
        jsonb_build_object('pod', o.name, 'project', o.project_id)), o.id, o.name, o.project_id
    FROM (SELECT DISTINCT space, owner_id FROM changed WHERE space LIKE 'host/%') c JOIN owner o ON o.id = c.owner_id
    WHERE NOT EXISTS (SELECT FROM number_hold n WHERE (n.space, n.owner_id) = (c.space, c.owner_id))
    ORDER BY c.space;
    RETURN NULL;
END $$;
CREATE TRIGGER slots_went AFTER DELETE ON number_hold REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_slots_went();

-- A server that is observed broken, such as in ERROR. The same failure of a pod's node, with nothing between, is one entry: what
-- a server's owner does to it must not fill the table.
CREATE FUNCTION note_server_broken() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    place text := NEW.document ->> 'node';
    last record;
BEGIN
    SELECT h.type, h.pod_id INTO last FROM node_history h WHERE h.node = place ORDER BY h.sequence DESC LIMIT 1;
    IF coalesce(place, '') <> '' AND (last.type, last.pod_id) IS DISTINCT FROM ('failure', NEW.owner_id) THEN
        INSERT INTO node_history (node, at, type, message, pod_id, pod, project_id)
        SELECT place, now(), 'failure', node_message('NODE_SERVER_BROKEN', jsonb_build_object('pod', o.name,
            'project', o.project_id, 'server', NEW.document ->> 'name', 'why', NEW.reason)), o.id, o.name, o.project_id
        FROM owner o WHERE o.id = NEW.owner_id;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER server_broken AFTER UPDATE ON resource FOR EACH ROW
    WHEN (NEW.kind = 'server' AND NEW.state = 'broken' AND OLD.state <> 'broken') EXECUTE FUNCTION note_server_broken();

-- Entries for what is known from before.
INSERT INTO node_history (node, at, type, message, pod_id, pod, project_id)
SELECT h.node, h.since, 'pod', node_message(CASE WHEN h.spare THEN 'NODE_KEPT_AS_SPARE' ELSE 'NODE_GIVEN' END,
    jsonb_build_object('pod', o.name, 'project', o.project_id)), h.pod_id, o.name, o.project_id
FROM node_hold h LEFT JOIN owner o ON o.id = h.pod_id ORDER BY h.since, h.node;
INSERT INTO node_history (node, at, type, message, by, pod_id, project_id)
SELECT node, since, 'hold', node_message('NODE_HELD', jsonb_build_object('what', what, 'cause', nullif(cause, '""'))), held_by,
    pod_id, project_id
FROM acceptance ORDER BY since, node, what;
INSERT INTO node_history (node, at, type, message, by)
SELECT node, since, 'drain', node_message('NODE_DRAINED', jsonb_build_object('until', until_at, 'reason', nullif(reason, ''))),
    drained_by
FROM drain ORDER BY since, node;
INSERT INTO node_history (node, at, type, message, pod_id)
SELECT node, since, 'quarantine', node_message('NODE_QUARANTINED', jsonb_build_object('reason', reason)), pod_id
FROM quarantine ORDER BY since, node;
