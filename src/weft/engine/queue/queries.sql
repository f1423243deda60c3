-- Statements of weft.engine.queue, by name. `%(x)s` are psycopg parameters.

-- name: hold_node
INSERT INTO node_hold (node, pod_id, since, spare, whole)
VALUES (%(node)s, %(pod_id)s, %(at)s, %(spare)s, %(whole)s);

-- name: is_confirmed
-- Whether a pod's claim was confirmed, or workers may claim it although it wasn't.
SELECT FROM pod WHERE id = %(id)s AND (token > 0 OR next_at <= now());

-- name: start_pod
-- A waiting order gets its nodes. No row: it was withdrawn meanwhile.
UPDATE pod SET plan = %(plan)s, site = %(plan)s::jsonb ->> 'site', state = 'PLACED',
    phase = 'building', conditions = '[]', reason = '""', since = %(at)s, lease_end = %(lease_end)s,
    placed_at = %(at)s, position = NULL, expected_start = NULL, woken = woken + 1, next_at = now()
WHERE id = %(id)s AND plan IS NULL AND state = 'PENDING' RETURNING id;

-- name: waiting_pods
-- An unreadable order is tried again when it is due. A row's document, which is large, is left out for a reader that
-- has seen this version of it.
SELECT id, project_id, name, created_by, coalesce(queued_at, created_at) AS created_at, xmin::text AS version, reason, lease_end, not_before, fixed, position,
    expected_start, generation, parked
FROM pod WHERE plan IS NULL AND state = 'PENDING' AND (parked IS NULL OR next_at <= now()) ORDER BY arrival;

-- name: orders_of
SELECT id, ordered FROM pod WHERE id = ANY(%(ids)s);

-- name: waiting_of_project
SELECT count(*) AS number FROM pod WHERE plan IS NULL AND state = 'PENDING' AND project_id = %(project_id)s;

-- name: overdue_of_project
-- Releases that have been worked on for too long, and releases that ended with numbers still in use.
SELECT name FROM pod
WHERE project_id = %(project_id)s AND (
    (state = 'RELEASING' AND split_part(worked_by, ' ', 1) = 'release' AND worked > %(seconds)s)
    OR (state = 'RELEASED' AND EXISTS (SELECT FROM number_hold WHERE owner_id = pod.id)))
ORDER BY since, name;

-- name: unpark
UPDATE owner SET parked = NULL, alarmed = false WHERE id = %(id)s AND parked IS NOT NULL;

-- name: note_waiting
UPDATE pod SET reason = %(reason)s, position = %(position)s, expected_start = %(expected_start)s
WHERE id = %(id)s AND plan IS NULL AND state = 'PENDING';

-- name: fail_waiting
UPDATE pod SET state = 'FAILED', reason = %(reason)s, since = %(at)s, position = NULL, expected_start = NULL,
    alarmed = true, conditions = jsonb_build_array(jsonb_build_object('type', 'Failed', 'status', 'true',
        'reason', 'PersonNeeded', 'since', %(at)s::timestamptz) || %(said)s::jsonb)
WHERE id = %(id)s AND plan IS NULL AND state = 'PENDING';

-- name: booking
INSERT INTO booking (pod_id, nodes, start_at, end_at, parts, open)
VALUES (%(pod_id)s, %(nodes)s, %(start)s, %(end)s, %(parts)s, %(open)s)
ON CONFLICT (pod_id) DO UPDATE SET nodes = excluded.nodes, start_at = excluded.start_at, end_at = excluded.end_at,
    parts = excluded.parts, open = excluded.open;

-- name: drop_booking
DELETE FROM booking WHERE pod_id = %(pod_id)s;

-- name: use_of_projects
-- Unit-seconds of each project, spares included, where those `half_life` seconds old count half: the integral of that
-- decay. A pod released ten half-lives ago counts less than a thousandth; both halves are read by an index. All in
-- float8: numeric takes three times as long.
SELECT project_id, %(half_life)s::float8 / ln(2.0::float8) * sum(units * (
    power(2.0::float8, -least(date_part('epoch', %(at)s - least(coalesce(released_at, %(at)s), %(at)s)) / %(half_life)s::float8,
        900.0::float8))
    - power(2.0::float8, -least(date_part('epoch', %(at)s - placed_at) / %(half_life)s::float8, 900.0::float8))
)) AS seconds
FROM (
    SELECT project_id, units, placed_at, released_at FROM pod WHERE state <> 'RELEASED' AND plan IS NOT NULL
    UNION ALL
    SELECT project_id, units, placed_at, released_at FROM pod
    WHERE state = 'RELEASED' AND released_at > %(at)s - 10 * %(half_life)s * interval '1 second'
) placed WHERE placed_at <= %(at)s GROUP BY project_id;

-- name: take_queue
-- One worker processes the queue when it is due; if it dies, another does after the delay. It waits for transactions
-- that are about to commit what it should see.
UPDATE queue SET next_at = %(later)s WHERE next_at <= %(at)s RETURNING next_at;

-- name: queue_at
SELECT next_at FROM queue;

-- name: lengthen_waiting
-- Writes the next generation of a waiting order, with another lease. No row: it has started meanwhile, or was
-- withdrawn.
UPDATE pod SET generation = generation + 1, ordered = %(ordered)s, lease_end = %(lease_end)s
WHERE id = %(id)s AND generation = %(base)s AND wanted = 'present' AND plan IS NULL AND state = 'PENDING' RETURNING id;

-- name: renumber_resource
-- A resource that was seen absent is to be recreated with other numbers. Its last id outside is kept until it gets
-- another one, except for data (`forgets`), which may have stayed outside as someone else's.
UPDATE resource SET document = %(document)s, state = 'wanted', reason = '""', differences = '[]', attempts = 0,
    outside_id = CASE WHEN NOT %(forgets)s THEN outside_id END
WHERE owner_id = %(owner_id)s AND key = %(key)s AND state IN ('absent', 'wanted');

-- name: renumber_pod
UPDATE pod SET plan = %(plan)s, taken = NULL WHERE id = %(id)s;

-- name: bump_epoch
-- Counts one more claim in a cloud.
INSERT INTO epoch (cloud, life, number) VALUES (%(cloud)s, gen_random_uuid(), 1)
ON CONFLICT (cloud) DO UPDATE SET number = epoch.number + 1;

-- name: change_pod
-- Writes the next generation of a pod that has nodes. No row: another change was faster, or the pod is being released.
UPDATE pod SET generation = %(generation)s, ordered = %(ordered)s, units = %(units)s, plan = %(plan)s, lease_end = %(lease_end)s,
    lease_warned = lease_warned AND lease_end IS NOT DISTINCT FROM %(lease_end)s,
    changed_at = coalesce(changed_at, %(changed_at)s), failures = 0, woken = woken + 1, next_at = now()
WHERE id = %(id)s AND generation = %(base)s AND wanted = 'present' AND plan IS NOT NULL AND state <> 'RELEASED'
RETURNING *;

-- name: change_waiting
-- Writes the next generation of an order that waits, or could never be placed. If it loses its place, it counts as if
-- it came now.
UPDATE pod SET generation = generation + 1, ordered = %(ordered)s, units = %(units)s, lease_end = %(lease_end)s,
    not_before = %(not_before)s, fixed = %(fixed)s, expected_start = %(expected_start)s, reason = %(reason)s, position = NULL,
    since = CASE WHEN state = 'PENDING' THEN since ELSE %(at)s END, state = 'PENDING', phase = 'ordered',
    conditions = '[]', alarmed = false,
    queued_at = CASE WHEN %(keeps_place)s THEN queued_at ELSE %(at)s END
WHERE id = %(id)s AND generation = %(base)s AND wanted = 'present' AND plan IS NULL AND state IN ('PENDING', 'FAILED')
RETURNING id;

-- name: leave_place
UPDATE pod SET arrival = DEFAULT WHERE id = %(id)s;

-- name: first_generation
-- Records a pod's first generation, before its first change.
INSERT INTO pod_generation (pod_id, generation, ordered, at, by, what)
SELECT id, generation, ordered, created_at, created_by, 'ordered' FROM pod WHERE id = %(id)s
ON CONFLICT DO NOTHING;

-- name: insert_generation
INSERT INTO pod_generation (pod_id, generation, ordered, at, by, what)
VALUES (%(pod_id)s, %(generation)s, %(ordered)s, %(at)s, %(by)s, %(what)s);

-- name: resource_keys
SELECT key, state, expunged FROM resource WHERE owner_id = %(owner_id)s;

-- name: insert_changed_resource
INSERT INTO resource (owner_id, key, kind, position, document, generation)
VALUES (%(owner_id)s, %(key)s, %(kind)s, %(position)s, %(document)s, %(generation)s);

-- name: change_resource
-- The resource stays, but is desired differently: a settled one is observed again.
UPDATE resource SET document = %(document)s, position = %(position)s, generation = %(generation)s,
    since = CASE state WHEN 'settled' THEN %(at)s ELSE since END,
    state = CASE state WHEN 'settled' THEN 'pending' ELSE state END
WHERE owner_id = %(owner_id)s AND key = %(key)s;

-- name: change_needs
-- The resource stays as it is, and no longer waits for what the order doesn't ask for any more.
UPDATE resource SET document = %(document)s, position = %(position)s WHERE owner_id = %(owner_id)s AND key = %(key)s;

-- name: want_resource_again
-- A resource that wasn't wanted for a while is wanted again. Its last id outside is kept until it gets another one; one
-- that is being deleted is deleted first, and then recreated. `forgets`: what was seen gone, or stays outside as
-- someone else's, no longer belongs to it. `guest`: what was seen gone is a predecessor, since the id of the new one
-- may be unknown when its host is read. `keeps`: it stays if the outside hasn't accepted its deletion yet.
UPDATE resource SET document = %(document)s, position = %(position)s, generation = %(generation)s, expunged = NULL,
    reason = '""', differences = '[]', attempts = 0, since = %(at)s,
    former = CASE WHEN %(guest)s AND state = 'absent' AND outside_id IS NOT NULL
        THEN former || jsonb_build_object('id', outside_id, 'facts', facts) ELSE former END,
    outside_id = CASE WHEN (%(forgets)s OR %(guest)s) AND state = 'absent' THEN NULL ELSE outside_id END,
    facts = CASE WHEN (%(forgets)s OR %(guest)s) AND state = 'absent' THEN '{}' ELSE facts END,
    state = CASE WHEN state = 'absent' THEN 'wanted' WHEN state = 'settled' THEN 'pending'
        WHEN state = 'deleting' AND %(keeps)s AND NOT asked THEN 'pending' ELSE state END
WHERE owner_id = %(owner_id)s AND key = %(key)s;

-- name: expunge_resource
UPDATE resource SET expunged = %(generation)s WHERE owner_id = %(owner_id)s AND key = %(key)s AND expunged IS NULL;

-- name: leave_node
-- The node stays held until it is read back clean.
UPDATE node_hold SET leaving = %(generation)s, leaving_ports = %(ports)s, cleared = false WHERE node = %(node)s AND pod_id = %(pod_id)s;

-- name: leave_part
-- Like leave_node, for a server's part of a shared node; the pod may keep other parts there.
UPDATE part_hold SET leaving = true WHERE node = %(node)s AND pod_id = %(pod_id)s AND server = %(server)s;

-- name: hold_shared_node
-- Holds a node because of a part of it; it is already held if the pod has another part there.
INSERT INTO node_hold (node, pod_id, since, spare, whole) VALUES (%(node)s, %(pod_id)s, %(at)s, false, false)
ON CONFLICT (node, pod_id) DO NOTHING;

-- name: use_spare
UPDATE node_hold SET spare = false WHERE node = %(node)s AND pod_id = %(pod_id)s;
