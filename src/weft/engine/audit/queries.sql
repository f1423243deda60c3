-- Statements of weft.engine.audit, by name. `%(x)s` are psycopg parameters.

-- name: pods_in_quarantine
-- Pods that quarantined a node which hasn't been cleared since.
SELECT DISTINCT pod_id FROM quarantine_pod;

-- name: take_sweep
-- One worker sweeps when it is due; if it dies, another does after the delay.
UPDATE sweep SET next_at = %(later)s WHERE next_at <= %(at)s RETURNING next_at;

-- name: end_sweep
UPDATE sweep SET next_at = %(next)s, ended_at = %(at)s, unread = %(unread)s;

-- name: sweep_turns
-- Project -> the last of its things that a round removed, where one round doesn't remove all.
SELECT turns FROM sweep FOR UPDATE;

-- name: set_sweep_turns
UPDATE sweep SET turns = %(turns)s;

-- name: set_swept
UPDATE owner SET swept_at = %(at)s WHERE id = %(id)s;

-- name: quarantine_free
-- Quarantines a node that no pod holds. No row: a pod holds it, or it is already quarantined.
WITH made AS (
    INSERT INTO quarantine (node, reason, since, pod_id)
    SELECT %(node)s, %(reason)s, %(at)s, %(pod_id)s WHERE NOT EXISTS (SELECT 1 FROM node_hold WHERE node = %(node)s)
    ON CONFLICT (node) DO NOTHING RETURNING node, pod_id
), noted AS (
    INSERT INTO node_history (node, at, type, message, pod_id, pod, project_id)
    SELECT m.node, %(at)s, 'quarantine', node_message('NODE_QUARANTINED', jsonb_build_object('reason', %(reason)s::text)),
        m.pod_id, o.name, o.project_id
    FROM made m LEFT JOIN owner o ON o.id = m.pod_id
)
INSERT INTO quarantine_pod (node, pod_id) SELECT node, pod_id FROM made RETURNING node;

-- name: ids_in_use
-- Those of these ids that a resource of a live owner has, or will have, since a site adopts it.
SELECT r.outside_id AS id FROM resource r JOIN owner o ON o.id = r.owner_id
WHERE r.outside_id = ANY(%(ids)s) AND r.state <> 'absent' AND o.state <> 'RELEASED'
UNION SELECT a.value FROM site_desired d JOIN ONLY owner o ON o.id = d.owner_id, LATERAL jsonb_each_text(d.adopted) a
WHERE o.state <> 'RELEASED' AND a.value = ANY(%(ids)s);

-- name: segments_of_live
-- Segments of a fabric that unreleased owners have, or may still have.
SELECT r.* FROM resource r JOIN owner p ON p.id = r.owner_id
WHERE r.kind = 'segment' AND r.document ->> 'where' = %(fabric)s AND r.state <> 'absent' AND p.state <> 'RELEASED'
ORDER BY r.owner_id, r.key;
