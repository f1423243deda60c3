-- Who had which nodes and parts of nodes, from when to when. Triggers write it with the holds, which are placement's
-- own records. Names are stored, since rows of nodes are deleted with the site.
CREATE TABLE use_span (
    id          bigint       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node        text         NOT NULL,
    pod_id      uuid         NOT NULL,
    pod         text         NOT NULL,
    project_id  text         NOT NULL,
    -- number of the server that has a part of the node, and its accelerators; null: the node is held whole
    server      integer,
    devices     integer,
    spare       boolean      NOT NULL DEFAULT false,
    since       timestamptz  NOT NULL,
    until       timestamptz
);
CREATE UNIQUE INDEX use_open ON use_span (node, pod_id, coalesce(server, -1)) WHERE until IS NULL;
CREATE INDEX use_project ON use_span (project_id, since);
CREATE INDEX use_until ON use_span (until);
CREATE INDEX use_pod ON use_span (pod_id);

CREATE FUNCTION note_use_began() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO use_span (node, pod_id, pod, project_id, spare, since)
    SELECT c.node, c.pod_id, p.name, p.project_id, c.spare, c.since
    FROM changed c JOIN pod p ON p.id = c.pod_id WHERE c.whole ORDER BY c.node;
    RETURN NULL;
END $$;
CREATE TRIGGER use_began AFTER INSERT ON node_hold REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_use_began();

CREATE FUNCTION note_use_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE use_span u SET until = greatest(u.since, now()) FROM changed c
    WHERE (u.node, u.pod_id) = (c.node, c.pod_id) AND u.server IS NULL AND u.until IS NULL;
    RETURN NULL;
END $$;
CREATE TRIGGER use_ended AFTER DELETE ON node_hold REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_use_ended();

-- A spare that is used.
CREATE FUNCTION note_use_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH spared AS (
        SELECT c.node, c.pod_id, c.spare FROM changed c JOIN before b USING (node, pod_id)
        WHERE c.whole AND b.spare <> c.spare
    ), ended AS (
        UPDATE use_span u SET until = greatest(u.since, now()) FROM spared s
        WHERE (u.node, u.pod_id) = (s.node, s.pod_id) AND u.server IS NULL AND u.until IS NULL AND u.spare <> s.spare
        RETURNING u.node, u.pod_id, u.pod, u.project_id, s.spare, u.until
    )
    INSERT INTO use_span (node, pod_id, pod, project_id, spare, since)
    SELECT node, pod_id, pod, project_id, spare, until FROM ended ORDER BY node;
    RETURN NULL;
END $$;
CREATE TRIGGER use_changed AFTER UPDATE ON node_hold REFERENCING OLD TABLE AS before NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_use_changed();

CREATE FUNCTION note_part_use_began() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO use_span (node, pod_id, pod, project_id, server, devices, since)
    SELECT c.node, c.pod_id, p.name, p.project_id, c.server, cardinality(c.devices), now()
    FROM changed c JOIN pod p ON p.id = c.pod_id ORDER BY c.node, c.server;
    RETURN NULL;
END $$;
CREATE TRIGGER part_use_began AFTER INSERT ON part_hold REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_part_use_began();

CREATE FUNCTION note_part_use_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE use_span u SET until = greatest(u.since, now()) FROM changed c
    WHERE (u.node, u.pod_id, u.server) = (c.node, c.pod_id, c.server) AND u.until IS NULL;
    RETURN NULL;
END $$;
CREATE TRIGGER part_use_ended AFTER DELETE ON part_hold REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_part_use_ended();

-- A claim that was dropped has left no trace, and this is none either.
CREATE FUNCTION drop_use() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM use_span WHERE pod_id = OLD.id;
    RETURN NULL;
END $$;
CREATE TRIGGER use_dropped AFTER DELETE ON pod FOR EACH ROW EXECUTE FUNCTION drop_use();

-- What is known from before: who has what, and what released pods had last.
INSERT INTO use_span (node, pod_id, pod, project_id, spare, since)
SELECT h.node, h.pod_id, p.name, p.project_id, h.spare, h.since FROM node_hold h JOIN pod p ON p.id = h.pod_id WHERE h.whole;
INSERT INTO use_span (node, pod_id, pod, project_id, server, devices, since)
SELECT h.node, h.pod_id, p.name, p.project_id, h.server, cardinality(h.devices), n.since
FROM part_hold h JOIN node_hold n USING (node, pod_id) JOIN pod p ON p.id = h.pod_id;
INSERT INTO use_span (node, pod_id, pod, project_id, since, until)
SELECT DISTINCT n ->> 'node', p.id, p.name, p.project_id, p.placed_at, greatest(p.placed_at, p.released_at)
FROM pod p, jsonb_array_elements(coalesce(p.plan #> '{placement,nodes}', '[]')) n
WHERE p.state = 'RELEASED' AND p.placed_at IS NOT NULL AND p.released_at IS NOT NULL AND n ->> 'node' IS NOT NULL
    AND coalesce(n -> 'part', 'null') = 'null'
    AND NOT EXISTS (SELECT FROM node_hold h WHERE (h.node, h.pod_id) = (n ->> 'node', p.id));
