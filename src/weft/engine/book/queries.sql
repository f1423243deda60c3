-- Statements of weft.engine.book, by name. `%(x)s` are psycopg parameters.

-- name: lock_claim
-- Like lock_capacity, but without waiting for the disk under the lock: what confirm_pod or drop_claim writes later
-- reaches the disk after this, and nothing is created before that. Without either, PostgreSQL writes it within a second
-- (wal_writer_delay).
SELECT pg_advisory_xact_lock(hashtext('weft.capacity')), set_config('synchronous_commit', 'off', true);

-- part: capacity_documents
SELECT 'frame' AS what, '' AS name, json_build_object('since', since::text, 'server', server, 'own', own, 'whole', whole,
    'at', clock_timestamp(), 'site', (SELECT max(generation) FROM site),
    -- servers that were seen gone recently: a slightly older listing may still show them
    'gone', (SELECT coalesce(json_agg(json_build_array(outside_id, extract(epoch FROM finished_at))), '[]') FROM resource
        WHERE kind = 'server' AND state = 'absent' AND outside_id IS NOT NULL AND finished_at >
            coalesce(%(gone_since)s::timestamptz, coalesce(%(at)s::timestamptz, clock_timestamp()) - %(gone)s::interval)),
    -- names and ids of the site's networks and flavors that are being removed, or have a subnet being removed: no new
    -- pod may use them
    'ending', (SELECT coalesce(json_object_agg(x.name, x.kind), '{}') FROM ONLY owner o
        LEFT JOIN site_desired d ON d.owner_id = o.id
        JOIN resource r ON r.owner_id = o.id AND r.kind IN ('network', 'subnet', 'flavor') AND r.state <> 'absent'
            AND (o.wanted = 'absent' OR r.outside_id = ANY(d.going))
        JOIN resource n ON n.owner_id = o.id
            AND n.key = CASE r.kind WHEN 'subnet' THEN r.document->'spec'->>'network' ELSE r.key END,
        LATERAL (VALUES (n.document->>'name', n.kind), (n.outside_id, n.kind)) x (name, kind)
        WHERE o.state <> 'RELEASED' AND o.kind = 'site' AND x.name IS NOT NULL
            AND (o.wanted = 'absent' OR d.going <> '{}'))
    ) AS document
FROM frame
UNION ALL SELECT 'owner', o.id::text, json_build_object(
    'pod', (SELECT row_to_json(x) FROM (
        SELECT p.name AS pod, p.project_id, p.lease_end, p.wanted, nullif(p.apart_from, '[]') AS apart_from, p.exclusive,
            p.bisection_gbps, coalesce(p.placed_at, p.created_at) AS placed_at FROM pod p WHERE p.id = o.id) x),
    'nodes', (SELECT json_agg(x ORDER BY node) FROM (
        SELECT node, since, spare, withheld, whole, leaving FROM node_hold WHERE pod_id = o.id) x),
    -- what each server has of shared nodes
    'parts', (SELECT json_agg(x ORDER BY node, server) FROM (
        SELECT node, server, devices, cores, memory_mib, dedicated, numa, numa_of, leaving,
            (SELECT coalesce(json_object_agg(function, slot), '{}') FROM function_hold f
                WHERE (f.node, f.pod_id, f.server) = (p.node, p.pod_id, p.server)) AS functions
        FROM part_hold p WHERE p.pod_id = o.id) x),
    -- a segment's number counts as taken while a standby manager may still have it
    'numbers', (SELECT json_agg(json_build_array(space, number)) FROM (
        SELECT space, number FROM number_hold WHERE owner_id = o.id
        UNION SELECT 'segment/' || fabric, number FROM stale_number WHERE owner_id = o.id) x),
    'subnets', (SELECT json_agg(json_build_array(plane, cloud, cidr)) FROM subnet_hold WHERE owner_id = o.id),
    'booking', (SELECT row_to_json(x) FROM (
        SELECT r.nodes, r.start_at, r.end_at, r.parts, CASE WHEN r.open THEN coalesce(p.queued_at, p.created_at) END AS came
        FROM booking r JOIN pod p ON p.id = r.pod_id WHERE r.pod_id = o.id) x))
FROM owners o
UNION ALL SELECT 'quarantine', n.node, (SELECT row_to_json(q) FROM quarantine q WHERE q.node = n.node) FROM quarantines n
UNION ALL SELECT 'reservation', n.name, (SELECT row_to_json(r) FROM reservation r WHERE r.name = n.name) FROM reserved n
UNION ALL SELECT 'stop', n.node, (SELECT json_build_object(
    'holds', (SELECT json_agg(a ORDER BY since, what) FROM acceptance a WHERE a.node = n.node),
    'drain', (SELECT row_to_json(d) FROM drain d WHERE d.node = n.node),
    'reports', (SELECT json_agg(r ORDER BY at, project_id) FROM node_report r WHERE r.node = n.node),
    'checks', (SELECT json_build_object('at', c.at, 'status', c.status, 'expected', c.expected, 'problems', (
        SELECT json_agg(json_build_array(p ->> 'code', p ->> 'subject', p ->> 'status', p ->> 'since', coalesce(p ->> 'judged', 'open')))
        FROM jsonb_array_elements(c.problems) p)) FROM node_check c WHERE c.node = n.node))) FROM stopped n


-- name: capacity_changes
-- Who holds what, and what is out of order, of everything changed since a snapshot (`since`, of a server that started
-- at `server`): by owner, quarantined node, reservation and stopped node; null: it no longer exists. Nothing, if that is
-- no longer known (`whole`); servers that were seen gone after `gone_since`. A snapshot doesn't see the transactions that it lists
-- as under way, and all from its xmax on. Arrays, so that PostgreSQL expects few rows whatever the snapshot is, and
-- plans this once for each connection.
WITH frame AS MATERIALIZED (
    SELECT pg_current_snapshot() AS since, pg_postmaster_start_time()::text AS server,
        pg_current_xact_id_if_assigned() IS NOT NULL AS own,
        coalesce(%(server)s <> pg_postmaster_start_time()::text
            OR pg_snapshot_xmax(%(since)s::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot())
            -- ids below may be another server's, of whose database this is a copy
            OR pg_snapshot_xmin(%(since)s::pg_snapshot) < below AND below <= pg_snapshot_xmax(pg_current_snapshot()), true) AS whole
    FROM capacity_log
), changed AS MATERIALIZED (
    SELECT DISTINCT what, name FROM capacity_change WHERE NOT (SELECT whole FROM frame)
        AND (xact >= pg_snapshot_xmax(%(since)s::pg_snapshot)
            OR xact = ANY(ARRAY(SELECT pg_snapshot_xip(%(since)s::pg_snapshot))))
), owners AS (
    SELECT unnest(ARRAY(SELECT name::uuid FROM changed WHERE what = 'owner')) AS id
), quarantines AS (
    SELECT unnest(ARRAY(SELECT name FROM changed WHERE what = 'quarantine')) AS node
), reserved AS (
    SELECT unnest(ARRAY(SELECT name FROM changed WHERE what = 'reservation')) AS name
), stopped AS (
    SELECT unnest(ARRAY(SELECT name FROM changed WHERE what = 'stop')) AS node
)
@capacity_documents;


-- name: capacity_whole
-- Like capacity_changes, for everything.
WITH frame AS MATERIALIZED (
    SELECT pg_current_snapshot() AS since, pg_postmaster_start_time()::text AS server,
        pg_current_xact_id_if_assigned() IS NOT NULL AS own, true AS whole
), owners AS (
    SELECT pod_id AS id FROM node_hold UNION SELECT pod_id FROM booking UNION SELECT owner_id FROM number_hold
    UNION SELECT owner_id FROM stale_number UNION SELECT owner_id FROM subnet_hold
), quarantines AS (
    SELECT node FROM quarantine
), reserved AS (
    SELECT name FROM reservation
), stopped AS (
    SELECT node FROM acceptance UNION SELECT node FROM drain UNION SELECT node FROM node_report
    UNION SELECT node FROM node_check
)
@capacity_documents;


-- name: hold_part
INSERT INTO part_hold (node, pod_id, server, devices, cores, memory_mib, of_cores, of_memory_mib, dedicated, numa, numa_of)
VALUES (%(node)s, %(pod_id)s, %(server)s, %(devices)s, %(cores)s, %(memory_mib)s, %(of_cores)s, %(of_memory_mib)s,
    %(dedicated)s, %(numa)s, %(numa_of)s);

-- name: hold_function
INSERT INTO function_hold (node, function, pod_id, server) VALUES (%(node)s, %(function)s, %(pod_id)s, %(server)s);

-- name: lock_functions
-- Runs before ports' virtual functions are written (`bound`: key -> slot). Locks their rows, and those of ports that
-- were bound there before, such as another pod's, which may do the same. All callers lock in the same order, which
-- prevents deadlocks.
SELECT FROM function_hold h JOIN (
    SELECT r.owner_id, r.document->>'node' AS node, r.document->'spec'->>'function' AS function, b.value AS slot
    FROM jsonb_each_text(%(bound)s) b JOIN resource r ON r.owner_id = %(pod_id)s AND r.key = b.key
) n ON h.node = n.node AND (h.slot = n.slot OR (h.pod_id, h.function) = (n.owner_id, n.function))
ORDER BY h.node, h.function FOR UPDATE OF h;

-- name: free_slot
-- Removes another port's binding to this slot: the last reading counts, and the other port is read again.
UPDATE function_hold h SET slot = NULL FROM resource r
WHERE r.owner_id = %(pod_id)s AND r.key = %(key)s AND h.node = r.document->>'node' AND h.slot = %(slot)s
  AND (h.pod_id, h.function) IS DISTINCT FROM (r.owner_id, r.document->'spec'->>'function');

-- name: bind_function
-- Records which virtual function of the host Nova has bound for a port.
UPDATE function_hold h SET slot = %(slot)s FROM resource r
WHERE r.owner_id = %(pod_id)s AND r.key = %(key)s AND h.node = r.document->>'node' AND h.pod_id = r.owner_id
  AND h.function = r.document->'spec'->>'function' AND h.slot IS DISTINCT FROM %(slot)s;

-- name: give_back_subnets
DELETE FROM subnet_hold WHERE owner_id = %(owner_id)s;

-- name: give_back_nodes
DELETE FROM node_hold WHERE pod_id = %(pod_id)s;

-- name: give_back_numbers
-- Frees all numbers except those in `kept` (`space number`).
DELETE FROM number_hold WHERE owner_id = %(owner_id)s AND space || ' ' || number <> ALL(%(kept)s);

-- part: pod_row
INSERT INTO pod (id, site, project_id, name, created_by, created_at, ordered, units, plan, state, reason, since, lease_end,
    placed_at, not_before, fixed, expected_start, phase, next_at)
VALUES (%(id)s, %(plan)s::jsonb ->> 'site', %(project_id)s, %(name)s, %(created_by)s, %(at)s, %(ordered)s, %(units)s, %(plan)s,
    %(state)s, %(reason)s, %(at)s,
    %(lease_end)s, %(placed_at)s, %(not_before)s, %(fixed)s, %(expected_start)s,
    CASE WHEN %(plan)s::jsonb IS NULL THEN 'ordered' ELSE 'building' END, now() + %(delay)s * interval '1 second')

-- name: insert_pod
-- Without a plan the order waits: for a start that was booked with it (`fixed`), or in the queue. Workers ignore it for
-- `delay` seconds.
@pod_row;

-- name: confirm_pod
-- The pod's capacity was checked: workers may claim the pod, and are notified afterwards. No row: the claim was lost.
UPDATE pod SET next_at = now() WHERE id = %(id)s RETURNING id;

-- name: drop_claim
-- No row: a worker has held the pod, it was changed, or its release was requested; then it takes its normal course.
DELETE FROM pod WHERE id = %(id)s AND token = 0 AND wanted = 'present' AND generation = 1 RETURNING placed_at;

-- name: drop_node_history
-- Deletes what the triggers wrote about a dropped claim. Entries of slots have the time at which the claim's
-- transaction began, which may have waited for the lock. Searched by time, since a node's whole history may be long.
DELETE FROM node_history WHERE pod_id = %(pod_id)s AND type = 'pod' AND at >= %(claimed)s - interval '10 minutes';

-- name: drop_events
DELETE FROM event WHERE owner_id = %(owner_id)s;

-- name: drop_resources
DELETE FROM resource WHERE owner_id = %(owner_id)s;

-- name: insert_reservation
INSERT INTO reservation (name, project_id, nodes, start_at, end_at, reason, created_by, created_at)
VALUES (%(name)s, %(project_id)s, %(nodes)s, %(start)s, %(end)s, %(reason)s, %(created_by)s, %(at)s) RETURNING *;

-- name: lock_reservation
SELECT revision FROM reservation WHERE name = %(name)s FOR UPDATE;

-- name: delete_reservation
DELETE FROM reservation WHERE name = %(name)s RETURNING *;

-- part: claims
counted AS (
    INSERT INTO epoch (cloud, life, number) VALUES (%(cloud)s, gen_random_uuid(), 1)
    ON CONFLICT (cloud) DO UPDATE SET number = epoch.number + 1
), resources AS (
    INSERT INTO resource (owner_id, generation, key, kind, position, document)
    SELECT %(owner_id)s::uuid, %(generation)s, r.* FROM jsonb_to_recordset(%(resources)s)
        AS r (key text, kind text, position integer, document jsonb)
), nodes AS (
    INSERT INTO node_hold (pod_id, since, node, spare, whole)
    SELECT %(owner_id)s::uuid, %(at)s::timestamptz, n.* FROM jsonb_to_recordset(%(nodes)s) AS n (node text, spare boolean, whole boolean)
), numbers AS (
    INSERT INTO number_hold (owner_id, space, number)
    SELECT %(owner_id)s::uuid, n.* FROM jsonb_to_recordset(%(numbers)s) AS n (space text, number integer)
), subnets AS (
    INSERT INTO subnet_hold (owner_id, cloud, plane, cidr)
    SELECT %(owner_id)s::uuid, %(cloud)s, s.* FROM jsonb_to_recordset(%(subnets)s) AS s (plane text, cidr text)
), written_events AS (
    INSERT INTO event (owner_id, project_id, life, at, type, message)
    SELECT %(owner_id)s::uuid, %(project_id)s::text, (SELECT number FROM event_life), %(at)s, 'state', m.said
    FROM jsonb_array_elements(%(messages)s) WITH ORDINALITY AS m (said, n) ORDER BY m.n
)

-- name: claim
-- Gives a pod the resources, nodes, numbers and subnets of its plan, and counts one more claim in its cloud.
WITH
@claims
SELECT pg_notify('weft_event', %(owner_id)s::uuid::text);

-- name: claim_new
-- Like claim, for a new pod, with its row. It doesn't notify: the pod has no followers yet, and a transaction that
-- notifies waits for the disk writes of all others that notify, while others wait for the lock.
WITH pod_row AS (
    @pod_row
),
@claims
SELECT;

-- name: use_of_period
-- Seconds of each hold within a period, of one project or all; a current hold counts until the end of the period.
SELECT project_id, pod_id, pod, node, devices, spare, type, accelerators,
    sum(extract(epoch FROM least(coalesce(until, %(until)s), %(until)s) - greatest(since, %(since)s)))::float8 AS seconds
FROM use_span
WHERE since < %(until)s AND (until IS NULL OR until > %(since)s) AND (%(project)s::text IS NULL OR project_id = %(project)s)
GROUP BY project_id, pod_id, pod, node, devices, spare, type, accelerators LIMIT %(limit)s;

-- name: note_capacity
-- Keeps the first record of a period.
INSERT INTO capacity_sample (period, at, nodes, waiting)
SELECT date_bin(%(every)s, %(now)s, '2000-01-01T00:00Z'), %(now)s, %(nodes)s, count(*)
FROM pod WHERE plan IS NULL AND state = 'PENDING' AND NOT fixed
ON CONFLICT (period) DO NOTHING;

-- name: capacity_noted
-- The last record of each step, and the highest number of orders that waited during the step.
SELECT DISTINCT ON (bin) at, nodes, max(waiting) OVER (PARTITION BY bin) AS waiting
FROM capacity_sample, date_bin(%(step)s, period, %(since)s) AS bin
WHERE period >= %(since)s AND period < %(until)s ORDER BY bin, period DESC;
