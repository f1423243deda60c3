-- Statements of weft.engine.proof, by name. `%(x)s` are psycopg parameters.

-- name: number_holds
-- Which numbers are taken, by space; a segment's also while a standby manager may still have it configured.
SELECT space, number, owner_id FROM number_hold
UNION ALL SELECT 'segment/' || fabric, number, owner_id FROM stale_number;

-- name: owners_of
-- Resource rows with one of these ids, and all rows of these owners.
SELECT r.owner_id, r.key, r.kind, r.state, r.outside_id, r.document ->> 'where' AS place,
    coalesce(r.document ->> 'owner', 'tenant') AS owner, r.document ->> 'name' AS called, r.started_at, r.finished_at, r.former,
    CASE WHEN r.kind = 'segment' THEN r.document #> '{spec,members}' END AS members, o.kind AS owner_kind, o.name, o.project_id, o.state AS owner_state, o.released_at, o.late_until
FROM resource r JOIN owner o ON o.id = r.owner_id
WHERE r.outside_id = ANY(%(ids)s) OR r.owner_id = ANY(%(owners)s);

-- name: known_owners
-- Those of these owners that the database knows.
SELECT id, kind, name, project_id, state, released_at FROM owner WHERE id = ANY(%(owners)s);

-- name: accepted
SELECT max(accepted_at) AS at FROM epoch;

-- name: things_to_adopt
-- Those of these ids that an owner has adopted, visited or not.
SELECT o.id AS owner_id, o.kind AS owner_kind, o.name, a.key, a.value AS outside_id, g.one ->> 'where' AS place
FROM site_desired d JOIN ONLY owner o ON o.id = d.owner_id, LATERAL jsonb_each_text(d.adopted) a,
    LATERAL jsonb_array_elements(d.graph -> 'resources') g (one)
WHERE o.state <> 'RELEASED' AND o.wanted = 'present' AND a.value = ANY(%(ids)s) AND g.one ->> 'key' = a.key;
