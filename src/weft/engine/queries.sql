-- Every statement that weft runs, by name. `%(x)s` are psycopg parameters.

-- name: time
-- The time now, not when the transaction began: it may have waited for a lock.
SELECT clock_timestamp() AS at;

-- name: insert_site
-- A new generation of the site.
INSERT INTO site (name, document, activated_at, activated_by)
VALUES (%(name)s, %(document)s, %(at)s, %(by)s) RETURNING generation;

-- name: lock_site
-- One change of the site at a time; readers don't wait.
LOCK TABLE site IN SHARE ROW EXCLUSIVE MODE;

-- name: hold_site
-- Keeps the site as it is until the transaction ends; any number may hold it.
LOCK TABLE site IN SHARE MODE;

-- name: current_site
-- The newest generation.
SELECT generation, name, document, activated_at, activated_by FROM site ORDER BY generation DESC LIMIT 1;

-- name: current_site_generation
-- Only its number, to detect a stale cache.
SELECT max(generation) AS generation FROM site;

-- name: site_parts
-- Bytes of parts.
SELECT digest, body FROM site_part WHERE digest = ANY(%(digests)s);

-- name: site_part_sizes
SELECT count(*) AS parts, coalesce(sum(size), 0) AS bytes FROM site_part WHERE digest = ANY(%(digests)s);

-- name: touch_site_parts
-- Parts that exist are kept from now on as if they had just been sent. All lock the rows in the same order, so that
-- there are no deadlocks.
WITH mine AS (SELECT digest FROM site_part WHERE digest = ANY(%(digests)s) ORDER BY digest FOR UPDATE)
UPDATE site_part p SET touched_at = %(at)s FROM mine WHERE p.digest = mine.digest RETURNING p.digest;

-- name: name_site_parts
-- Binds these to a generation; returns those that exist.
WITH mine AS (SELECT digest FROM site_part WHERE digest = ANY(%(digests)s) ORDER BY digest FOR UPDATE)
UPDATE site_part p SET generation = %(generation)s FROM mine WHERE p.digest = mine.digest RETURNING p.digest;

-- name: insert_site_part
-- If the part exists already, it is kept from now on as if it had just been sent.
INSERT INTO site_part (digest, body, size, generation, touched_at)
VALUES (%(digest)s, %(body)s, %(size)s, %(generation)s, %(at)s)
ON CONFLICT (digest) DO UPDATE SET touched_at = excluded.touched_at,
    generation = coalesce(excluded.generation, site_part.generation);

-- name: count_loose_parts
-- Parts that were sent and that no generation uses yet.
SELECT count(*) AS parts, coalesce(sum(size), 0) AS bytes FROM site_part WHERE generation IS NULL;

-- name: mark_capacity_changes
-- Changes from before the last mark may be removed from now on; the next mark is set half an hour later.
UPDATE capacity_log SET below = least(mark, pg_snapshot_xmin(pg_current_snapshot())),
    mark = pg_snapshot_xmin(pg_current_snapshot()), marked_at = now()
WHERE marked_at < now() - interval '30 minutes' OR mark > pg_snapshot_xmax(pg_current_snapshot());

-- name: prune_capacity_changes
-- Changes below the mark; and those that came with a copy of another server's database, without their transactions.
DELETE FROM capacity_change WHERE ctid IN (
    SELECT c.ctid FROM capacity_change c, capacity_log l
    WHERE c.xact < l.below OR c.xact > pg_snapshot_xmax(pg_current_snapshot()) LIMIT %(limit)s);

-- name: prune_site_parts
-- Parts that were sent long ago and never used, and those that only removed generations used; in batches, and without
-- locked ones.
DELETE FROM site_part WHERE digest IN (
    SELECT digest FROM site_part
    WHERE generation IS NULL AND touched_at < %(before)s
       OR generation < (SELECT min(generation) FROM site) AND touched_at < %(before)s
    ORDER BY digest LIMIT %(limit)s FOR UPDATE SKIP LOCKED);

-- name: lock_capacity
-- One placement at a time: every claim of nodes or numbers holds this until its transaction ends.
SELECT pg_advisory_xact_lock(hashtext('weft.capacity'));

-- name: lock_claim
-- The same, without waiting for the disk under the lock: what confirm_pod or drop_claim writes later reaches the disk
-- no sooner than this, and nothing is created before. PostgreSQL writes it within a second even if neither comes
-- (wal_writer_delay).
SELECT pg_advisory_xact_lock(hashtext('weft.capacity')), set_config('synchronous_commit', 'off', true);

-- part: capacity_documents
SELECT 'frame' AS what, '' AS name, json_build_object('since', since::text, 'server', server, 'own', own, 'whole', whole,
    'at', clock_timestamp(), 'site', (SELECT max(generation) FROM site),
    -- servers that were seen gone recently: a slightly older listing may still show them
    'gone', (SELECT coalesce(json_agg(json_build_array(outside_id, extract(epoch FROM finished_at))), '[]') FROM resource
        WHERE kind = 'server' AND state = 'absent' AND outside_id IS NOT NULL AND finished_at >
            coalesce(%(gone_since)s::timestamptz, coalesce(%(at)s::timestamptz, clock_timestamp()) - %(gone)s::interval)),
    -- networks and flavors of the site that are being removed, or with a subnet being removed, by names and ids: no new
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
    -- a segment's number also while a standby manager may still have it
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
        SELECT json_agg(json_build_array(p ->> 'code', p ->> 'subject', p ->> 'status', p ->> 'since'))
        FROM jsonb_array_elements(c.problems) p)) FROM node_check c WHERE c.node = n.node))) FROM stopped n


-- name: capacity_changes
-- Who holds what, and what is out of order, of everything changed since a snapshot (`since`, of a server that started
-- at `server`): by owner, quarantined node, reservation and stopped node; null: it no longer exists. Nothing, if that isn't known any
-- more (`whole`); servers that were seen gone after `gone_since`. A snapshot doesn't see the transactions that it lists
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
-- As capacity_changes, for everything.
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


-- name: number_holds
-- Which numbers are taken, by space; a segment's also while a standby manager may still have it.
SELECT space, number, owner_id FROM number_hold
UNION ALL SELECT 'segment/' || fabric, number, owner_id FROM stale_number;

-- name: hold_part
INSERT INTO part_hold (node, pod_id, server, devices, cores, memory_mib, of_cores, of_memory_mib, dedicated, numa, numa_of)
VALUES (%(node)s, %(pod_id)s, %(server)s, %(devices)s, %(cores)s, %(memory_mib)s, %(of_cores)s, %(of_memory_mib)s,
    %(dedicated)s, %(numa)s, %(numa_of)s);

-- name: hold_function
INSERT INTO function_hold (node, function, pod_id, server) VALUES (%(node)s, %(function)s, %(pod_id)s, %(server)s);

-- name: lock_functions
-- Before ports' functions are written (`bound`: key -> slot): locks their own rows, and those of ports that were bound
-- there before, such as another pod's, which may be doing the same. All lock them in the same order, so that there are
-- no deadlocks.
SELECT FROM function_hold h JOIN (
    SELECT r.owner_id, r.document->>'node' AS node, r.document->'spec'->>'function' AS function, b.value AS slot
    FROM jsonb_each_text(%(bound)s) b JOIN resource r ON r.owner_id = %(pod_id)s AND r.key = b.key
) n ON h.node = n.node AND (h.slot = n.slot OR (h.pod_id, h.function) = (n.owner_id, n.function))
ORDER BY h.node, h.function FOR UPDATE OF h;

-- name: free_slot
-- Another port was bound there before: the last reading counts, and the other port is read again.
UPDATE function_hold h SET slot = NULL FROM resource r
WHERE r.owner_id = %(pod_id)s AND r.key = %(key)s AND h.node = r.document->>'node' AND h.slot = %(slot)s
  AND (h.pod_id, h.function) IS DISTINCT FROM (r.owner_id, r.document->'spec'->>'function');

-- name: bind_function
-- Which virtual function of the host Nova has bound for a port.
UPDATE function_hold h SET slot = %(slot)s FROM resource r
WHERE r.owner_id = %(pod_id)s AND r.key = %(key)s AND h.node = r.document->>'node' AND h.pod_id = r.owner_id
  AND h.function = r.document->'spec'->>'function' AND h.slot IS DISTINCT FROM %(slot)s;

-- name: servers_on
-- Servers of pods that share these nodes: their ids, and whether some have no id, as Nova's answer isn't known yet.
SELECT h.node, coalesce(array_agg(r.outside_id) FILTER (WHERE r.outside_id IS NOT NULL), '{}') AS ids,
    bool_or(r.outside_id IS NULL) AS unanswered
FROM node_hold h JOIN resource r ON r.owner_id = h.pod_id AND r.kind = 'server' AND r.document->>'node' = h.node
WHERE NOT h.whole AND h.node = ANY(%(nodes)s) AND r.state <> 'absent' GROUP BY h.node;

-- name: give_back_subnets
DELETE FROM subnet_hold WHERE owner_id = %(owner_id)s;

-- name: hold_node
INSERT INTO node_hold (node, pod_id, since, spare, whole)
VALUES (%(node)s, %(pod_id)s, %(at)s, %(spare)s, %(whole)s);

-- name: hold_number
INSERT INTO number_hold (space, number, owner_id) VALUES (%(space)s, %(number)s, %(owner_id)s);

-- name: nodes_withheld
SELECT node FROM node_hold WHERE pod_id = %(pod_id)s AND withheld <> '';

-- name: give_back_node
-- Its virtual functions are freed with it; they are locked first, in the order of lock_functions.
WITH functions AS MATERIALIZED (
    SELECT FROM function_hold WHERE pod_id = %(pod_id)s AND node = %(node)s ORDER BY function FOR UPDATE
)
DELETE FROM node_hold WHERE node = %(node)s AND pod_id = %(pod_id)s AND (SELECT count(*) FROM functions) >= 0;

-- name: give_back_parts
-- What servers that left had of a shared node; no row if the pod keeps no other part of it. Functions as in
-- give_back_node.
WITH functions AS MATERIALIZED (
    SELECT FROM function_hold f JOIN part_hold p USING (node, pod_id, server)
    WHERE p.pod_id = %(pod_id)s AND p.node = %(node)s AND p.leaving ORDER BY f.function FOR UPDATE OF f
), parts AS (
    DELETE FROM part_hold
    WHERE pod_id = %(pod_id)s AND node = %(node)s AND leaving AND (SELECT count(*) FROM functions) >= 0
)
UPDATE node_hold SET leaving = NULL, leaving_ports = '{}'
WHERE node = %(node)s AND pod_id = %(pod_id)s
    AND EXISTS (SELECT FROM part_hold p WHERE (p.node, p.pod_id) = (%(node)s, %(pod_id)s) AND NOT p.leaving);

-- name: give_back_nodes
DELETE FROM node_hold WHERE pod_id = %(pod_id)s;

-- name: give_back_numbers
-- Except those in `kept`, as `space number`.
DELETE FROM number_hold WHERE owner_id = %(owner_id)s AND space || ' ' || number <> ALL(%(kept)s);

-- name: quarantines
SELECT node, reason, since, pod_id FROM quarantine;

-- name: quarantine
-- The first reason stays, as the one to look into; another owner's is appended once. Every pod is recorded, even if its
-- reason isn't.
WITH pods AS (
    INSERT INTO quarantine_pod (node, pod_id) SELECT %(node)s, %(pod_id)s::uuid WHERE %(pod_id)s::uuid IS NOT NULL
    ON CONFLICT DO NOTHING
), made AS (
    INSERT INTO quarantine (node, reason, since, pod_id) VALUES (%(node)s, %(reason)s, %(at)s, %(pod_id)s)
    ON CONFLICT (node) DO UPDATE
    SET reason = left(quarantine.reason || '; ' || excluded.reason, 2000), pod_id = coalesce(excluded.pod_id, quarantine.pod_id)
    WHERE quarantine.pod_id IS DISTINCT FROM excluded.pod_id AND position(excluded.reason IN quarantine.reason) = 0
    RETURNING node
)
INSERT INTO node_history (node, at, type, message, by, pod_id, pod, project_id)
SELECT m.node, %(at)s, 'quarantine', node_message('NODE_QUARANTINED', jsonb_build_object('reason', %(reason)s::text)), %(by)s,
    o.id, o.name, o.project_id
FROM made m LEFT JOIN owner o ON o.id = %(pod_id)s;

-- name: pods_in_quarantine
-- Pods that quarantined a node which hasn't been cleared since.
SELECT DISTINCT pod_id FROM quarantine_pod;

-- name: set_aside
-- Nodes that an owner quarantined and that haven't been cleared since.
SELECT node FROM quarantine_pod WHERE pod_id = %(owner_id)s;

-- name: clear_quarantine
-- Where a pod is leaving it, the operator's word is that nothing of the pod runs on it; not if the request is refused.
WITH word AS (
    UPDATE node_hold SET cleared = true WHERE node = %(node)s AND leaving IS NOT NULL
        AND EXISTS (SELECT 1 FROM quarantine WHERE node = %(node)s)
), cleared AS (
    DELETE FROM quarantine WHERE node = %(node)s RETURNING node, reason
)
INSERT INTO node_history (node, at, type, message, by)
SELECT node, %(at)s, 'quarantine', node_message('NODE_CLEARED', jsonb_build_object('reason', reason)), %(by)s FROM cleared;

-- name: holds_of
-- What a node is held for, locked.
SELECT node, what, since, held_by, cause, tests, tests_from FROM acceptance WHERE node = %(node)s ORDER BY since, what FOR UPDATE;

-- name: hold_for_acceptance
WITH made AS (
    INSERT INTO acceptance (node, what, since, held_by) VALUES (%(node)s, %(what)s, %(at)s, %(by)s)
    ON CONFLICT (node, what) DO NOTHING RETURNING *
)
INSERT INTO node_history (node, at, type, message, by)
SELECT node, since, 'hold', node_message('NODE_HELD', jsonb_build_object('what', what)), held_by FROM made;

-- name: hold_replaced
-- A person's hold with the same name becomes weft's, too.
WITH made AS (
    INSERT INTO acceptance (node, what, since, held_by, cause, pod_id, project_id)
    VALUES (%(node)s, %(what)s, %(at)s, %(by)s, %(cause)s, %(pod_id)s, %(project_id)s)
    ON CONFLICT (node, what) DO UPDATE SET cause = excluded.cause, pod_id = excluded.pod_id, project_id = excluded.project_id
    WHERE acceptance.cause = '""' RETURNING *
)
INSERT INTO node_history (node, at, type, message)
SELECT node, %(at)s, 'hold', node_message('NODE_HELD', jsonb_build_object('what', what)) FROM made;

-- name: count_unaccepted
-- Nodes that members of a project had replaced, and that aren't accepted yet; none, if this one is among the held ones.
SELECT count(*) AS number FROM acceptance WHERE project_id = %(project_id)s
    AND NOT EXISTS (SELECT FROM acceptance WHERE node = %(node)s AND what = %(what)s);

-- name: accept_node
WITH accepted AS (
    DELETE FROM acceptance WHERE node = %(node)s AND what = ANY(%(whats)s) RETURNING node, what
)
INSERT INTO node_history (node, at, type, message, by)
SELECT node, %(at)s, 'hold', CASE WHEN %(without)s::text IS NULL THEN node_message('NODE_ACCEPTED', jsonb_build_object('what', what))
    ELSE node_message('NODE_ACCEPTED_UNTESTED', jsonb_build_object('what', what, 'reason', %(without)s::text)) END, %(by)s
FROM accepted ORDER BY what;

-- name: pod_has_node
SELECT pod_id FROM node_hold WHERE node = %(node)s LIMIT 1;

-- name: store_node_tests
UPDATE acceptance SET tests = %(tests)s WHERE node = %(node)s AND what = %(what)s;

-- name: forget_node_tests
-- All tests of held nodes run again: pods may have had them since the backup was taken.
UPDATE acceptance SET tests = '{}', tests_from = %(at)s;

-- name: forget_tests_of_nodes
UPDATE acceptance SET tests = '{}', tests_from = %(at)s WHERE node = ANY(%(nodes)s);

-- name: hold_for_site
SELECT hold_for_site(%(nodes)s, %(what)s, %(code)s);

-- name: holds_for
SELECT node, what, cause, tests FROM acceptance WHERE what = %(what)s ORDER BY node FOR UPDATE;

-- name: accept_tested_node
WITH accepted AS (
    DELETE FROM acceptance WHERE node = %(node)s AND what = %(what)s RETURNING node, what
)
INSERT INTO node_history (node, at, type, message, by)
SELECT node, %(at)s, 'hold', node_message('NODE_ACCEPTED', jsonb_build_object('what', what, 'tests', %(tests)s::text[])), %(by)s
FROM accepted;

-- name: drain_nodes
-- Returns those that weren't drained, or otherwise.
WITH made AS (
    INSERT INTO drain (node, since, drained_by, until_at, reason, public, waits)
    SELECT node, %(at)s, %(by)s, %(until)s, %(reason)s, %(public)s, %(waits)s FROM unnest(%(nodes)s::text[]) node ORDER BY node
    ON CONFLICT (node) DO UPDATE SET drained_by = excluded.drained_by, until_at = excluded.until_at,
        reason = excluded.reason, public = excluded.public, waits = excluded.waits
    WHERE (drain.until_at, drain.reason, drain.public, drain.waits)
        IS DISTINCT FROM (excluded.until_at, excluded.reason, excluded.public, excluded.waits)
    RETURNING *
)
INSERT INTO node_history (node, at, type, message, by)
SELECT node, %(at)s, 'drain', node_message('NODE_DRAINED', jsonb_build_object('until', until_at, 'reason', nullif(reason, ''),
    'public', nullif(public, ''))), drained_by
FROM made ORDER BY node RETURNING node;

-- name: undrain_nodes
WITH ended AS (
    DELETE FROM drain WHERE node = ANY(%(nodes)s) RETURNING node
)
INSERT INTO node_history (node, at, type, message, by)
SELECT node, %(at)s, 'drain', node_message('NODE_UNDRAINED', '{}'), %(by)s FROM ended ORDER BY node RETURNING node;

-- name: drains_due
-- Nodes whose drain's time is over since the last look; those of drains that were ended or changed count again.
WITH ended AS (
    DELETE FROM drain_said s WHERE NOT EXISTS (SELECT FROM drain d WHERE (d.node, d.until_at) = (s.node, s.until_at))
)
INSERT INTO drain_said (node, until_at) SELECT node, until_at FROM drain WHERE until_at <= %(at)s AND NOT waits ORDER BY node
ON CONFLICT (node) DO UPDATE SET until_at = excluded.until_at WHERE drain_said.until_at <> excluded.until_at
RETURNING node;

-- name: report_of
SELECT * FROM node_report WHERE node = %(node)s AND project_id = %(project_id)s;

-- name: count_reports
SELECT count(*) AS number FROM node_report WHERE project_id = %(project_id)s;

-- name: report_node
-- No row if the pod doesn't hold the node, whole, in parts, or by a slot of a shared host.
WITH made AS (
    INSERT INTO node_report (node, project_id, pod_id, pod, at, reported_by, reason)
    SELECT %(node)s, %(project_id)s, %(pod_id)s, %(pod)s, %(at)s, %(by)s, %(reason)s
    WHERE EXISTS (SELECT FROM node_hold WHERE node = %(node)s AND pod_id = %(pod_id)s)
        OR EXISTS (SELECT FROM number_hold WHERE space = 'host/' || %(node)s AND owner_id = %(pod_id)s)
    ON CONFLICT (node, project_id) DO NOTHING RETURNING *
), noted AS (
    INSERT INTO node_history (node, at, type, message, by, pod_id, pod, project_id)
    SELECT node, at, 'report', %(message)s, reported_by, pod_id, pod, project_id FROM made
)
SELECT * FROM made;

-- name: clear_reports
WITH ended AS (
    DELETE FROM node_report WHERE node = %(node)s AND (%(project_id)s::text IS NULL OR project_id = %(project_id)s) RETURNING *
), noted AS (
    INSERT INTO node_history (node, at, type, message, by, pod_id, pod, project_id)
    SELECT node, %(at)s, 'report', node_message('NODE_REPORT_CLEARED', jsonb_build_object('project', project_id, 'reason', reason)),
        %(by)s, pod_id, pod, project_id
    FROM ended ORDER BY project_id
)
SELECT * FROM ended ORDER BY project_id;

-- name: lock_node_check
-- One report of a node at a time.
SELECT pg_advisory_xact_lock(hashtext('weft.checks'), hashtext(%(node)s));

-- name: node_check
SELECT node, at, status, expected, problems, document, known FROM node_check WHERE node = %(node)s;

-- name: store_node_check
INSERT INTO node_check (node, at, status, expected, problems, document, known)
VALUES (%(node)s, %(at)s, %(status)s, %(expected)s, %(problems)s, %(document)s, %(known)s)
ON CONFLICT (node) DO UPDATE SET at = excluded.at, status = excluded.status, expected = excluded.expected,
    problems = excluded.problems, document = excluded.document, known = excluded.known;

-- name: forget_node_check
DELETE FROM node_check WHERE node = %(node)s;

-- name: count_check_entries
SELECT count(*) AS number FROM node_history WHERE node = %(node)s AND type = 'check' AND at > %(since)s;

-- name: note_check
INSERT INTO node_history (node, at, type, message, by) VALUES (%(node)s, %(at)s, 'check', %(message)s, %(by)s);

-- name: prune_node_checks
-- Of nodes that have long stopped to report. What failed there stays: otherwise the node would get orders again.
DELETE FROM node_check WHERE node IN (
    SELECT node FROM node_check WHERE at < %(before)s AND NOT problems @> '[{"status": "failed"}]' ORDER BY at LIMIT %(limit)s);

-- name: lock_check_tokens
SELECT pg_advisory_xact_lock(hashtext('weft.check_tokens'), hashtext(%(node)s));

-- name: check_tokens
-- Without digests.
SELECT id, node, made_at, made_by, expires_at, used_at FROM check_token
WHERE %(node)s::text IS NULL OR node = %(node)s ORDER BY node, made_at, id;

-- name: insert_check_token
INSERT INTO check_token (id, node, digest, made_at, made_by, expires_at)
VALUES (%(id)s, %(node)s, %(digest)s, %(at)s, %(by)s, %(ends)s) RETURNING id, node, made_at, made_by, expires_at, used_at;

-- name: report_token
SELECT node, digest, expires_at FROM check_token WHERE id = %(id)s;

-- name: use_check_token
UPDATE check_token SET used_at = %(at)s WHERE id = %(id)s AND expires_at > %(at)s RETURNING id;

-- name: delete_check_token
DELETE FROM check_token WHERE id = %(id)s RETURNING id, node, made_at, made_by, expires_at, used_at;

-- name: lock_hosts
-- Two readings of different states would lock the same rows in different orders.
SELECT pg_advisory_xact_lock(hashtext('weft.hosts'));

-- name: forget_hosts
-- Nodes that left the site, are in maintenance, or whose cloud wasn't read: later they count from their first reading.
DELETE FROM host_down WHERE cloud = %(cloud)s AND seen_at < %(at)s - %(after)s::interval;

-- name: hosts_seen_down
-- Hosts that a cloud reported as down in a reading that began at `at`; one that a later reading has seen stays as it is.
-- After a gap in the readings, or if the clock was set back, it counts from now: it may have been up.
INSERT INTO host_down (node, cloud, since, seen_at) SELECT node, %(cloud)s, %(at)s, %(at)s FROM unnest(%(nodes)s::text[]) node ORDER BY node
ON CONFLICT (node) DO UPDATE SET seen_at = %(at)s, cloud = %(cloud)s, since = CASE
    WHEN host_down.reported_at IS NULL AND abs(extract(epoch FROM host_down.seen_at - %(at)s)) > extract(epoch FROM %(gap)s::interval)
    THEN %(at)s ELSE host_down.since END
WHERE NOT (host_down.seen_at > %(at)s AND host_down.seen_at <= %(at)s + %(gap)s::interval);

-- name: hosts_seen_up
-- The same of those that are up.
WITH up AS (
    DELETE FROM host_down WHERE node = ANY(%(nodes)s) AND NOT (seen_at > %(at)s AND seen_at <= %(at)s + %(gap)s::interval)
    RETURNING node, since, reported_at
), noted AS (
    INSERT INTO node_history (node, at, type, message)
    SELECT node, %(at)s, 'failure', node_message('NODE_HOST_UP', jsonb_build_object('since', since)) FROM up
    WHERE reported_at IS NOT NULL ORDER BY node
)
SELECT node FROM up WHERE reported_at IS NOT NULL ORDER BY node;

-- name: host_reading
-- A reading that began earlier than the last one is none.
INSERT INTO host_reading AS known (cloud, at, unknown) VALUES (%(cloud)s, %(at)s, %(unknown)s)
ON CONFLICT (cloud) DO UPDATE SET at = excluded.at, unknown = excluded.unknown
WHERE NOT (known.at > excluded.at AND known.at <= excluded.at + %(gap)s::interval);

-- name: host_readings
SELECT cloud, at, unknown FROM host_reading;

-- name: hosts_down_now
SELECT node, since, seen_at, reported_at IS NOT NULL AS reported FROM host_down;

-- name: failures_now
SELECT DISTINCT node, kind, since, what FROM node_failure ORDER BY node, kind;

-- name: count_hosts_down
-- Of a cloud, those that aren't reported yet.
SELECT count(*) AS number FROM host_down WHERE cloud = %(cloud)s AND reported_at IS NULL AND seen_at >= %(at)s;

-- name: hosts_down_too_long
-- Those of a cloud that were read as down for so long, once each.
WITH late AS (
    UPDATE host_down SET reported_at = %(at)s
    WHERE cloud = %(cloud)s AND reported_at IS NULL AND seen_at = %(at)s AND since <= %(at)s - %(limit)s::interval
    RETURNING node, since
), noted AS (
    INSERT INTO node_history (node, at, type, message)
    SELECT node, %(at)s, 'failure', node_message('NODE_HOST_DOWN', jsonb_build_object('since', since)) FROM late ORDER BY node
)
SELECT node, since FROM late ORDER BY node;

-- part: inner_host
-- Whether only servers of weft's own, such as controllers, are at a node of which the pod has slots: tenants read nothing of
-- their hosts. `h`: node and pod_id. Before the tenant's server there is written, it counts as such.
(NOT EXISTS (SELECT FROM node_hold m WHERE (m.node, m.pod_id) = (h.node, h.pod_id)) AND NOT EXISTS (
    SELECT FROM resource r WHERE r.owner_id = h.pod_id AND r.kind = 'server' AND r.document ->> 'node' = h.node
        AND coalesce(r.document ->> 'owner', 'tenant') = 'tenant'
))

-- name: pods_of_nodes
-- Live pods with these nodes, or slots there, that they aren't leaving.
SELECT o.id AS pod_id, h.node,
    @inner_host AS inner_host
FROM (
    SELECT pod_id, node FROM node_hold WHERE node = ANY(%(nodes)s) AND leaving IS NULL
    UNION SELECT owner_id, substr(space, 6) FROM number_hold WHERE space = ANY(ARRAY(SELECT 'host/' || n FROM unnest(%(nodes)s::text[]) n))
) h JOIN pod o ON o.id = h.pod_id WHERE o.wanted = 'present' ORDER BY o.id, h.node;

-- name: begin_adapter_reading
-- No row: another worker has begun one a moment ago.
INSERT INTO adapter_reading AS known (fabric, at) VALUES (%(fabric)s, %(at)s)
ON CONFLICT (fabric) DO UPDATE SET at = excluded.at WHERE NOT (known.at > %(at)s - %(pause)s::interval AND known.at <= %(at)s)
RETURNING at;

-- name: adapters_seen
-- All of a fabric but these ports, or those in `seen`, were seen in a reading that began at `at`; what a later one wrote
-- stays.
DELETE FROM adapter_gone WHERE fabric = %(fabric)s AND NOT port = ANY(%(ports)s)
    AND (%(seen)s::text[] IS NULL OR port = ANY(%(seen)s))
    AND NOT (seen_at > %(at)s AND seen_at <= %(at)s + %(gap)s::interval);

-- name: adapters_up
-- Adapters of pods' segments whose links are up, once each; those of released pods are forgotten.
WITH over AS (
    DELETE FROM adapter_up u WHERE fabric = %(fabric)s
        AND NOT EXISTS (SELECT FROM node_hold h WHERE (h.pod_id, h.node) = (u.pod_id, u.node))
), fresh AS MATERIALIZED (
    SELECT h.pod_id, h.node, u.port FROM unnest(%(nodes)s::text[], %(seen)s::text[]) AS u (node, port)
    JOIN node_hold h ON h.node = u.node AND h.leaving IS NULL
    WHERE NOT EXISTS (SELECT FROM adapter_up k WHERE (k.pod_id, k.fabric, k.port) = (h.pod_id, %(fabric)s, u.port))
), member AS (
    SELECT g.owner_id, m ->> 'port' AS port FROM resource g, jsonb_array_elements(g.document #> '{spec,members}') m
    WHERE g.kind = 'segment' AND g.expunged IS NULL AND g.document ->> 'where' = %(fabric)s
        AND g.owner_id = ANY(ARRAY(SELECT DISTINCT pod_id FROM fresh))
)
-- what is in both, by groups: a join may be planned as a loop in a loop, and a segment has thousands of members
INSERT INTO adapter_up (pod_id, node, fabric, port)
SELECT pod_id, max(node), %(fabric)s, port FROM (
    SELECT pod_id, node, port FROM fresh UNION ALL SELECT owner_id, NULL, port FROM member
) both_sides GROUP BY pod_id, port HAVING count(node) > 0 AND count(*) > count(node)
ORDER BY 1, 4 ON CONFLICT DO NOTHING;

-- name: adapters_up_of
SELECT * FROM adapter_up WHERE pod_id = %(pod_id)s ORDER BY fabric, port;

-- name: count_nodes_with_adapters_gone
-- Of pods' nodes; of links, those that were up while the pod had the node.
SELECT count(DISTINCT h.node) AS number FROM unnest(%(nodes)s::text[], %(ports)s::text[]) AS g (node, port)
JOIN node_hold h ON h.node = g.node
WHERE NOT %(links)s OR EXISTS (
    SELECT FROM adapter_up u WHERE (u.pod_id, u.fabric, u.port) = (h.pod_id, %(fabric)s, g.port)
);

-- name: adapters_gone
-- After a gap in the readings, if the clock was set back, or in an outage of the fabric, one counts from now.
INSERT INTO adapter_gone AS known (fabric, port, node, name, since, seen_at, of_link)
SELECT %(fabric)s, g ->> 'port', g ->> 'node', g ->> 'name', %(at)s, %(at)s, %(links)s FROM jsonb_array_elements(%(gone)s::jsonb) g
ORDER BY g ->> 'port'
ON CONFLICT (fabric, port) DO UPDATE SET node = excluded.node, name = excluded.name, seen_at = excluded.seen_at,
    since = CASE WHEN %(outage)s OR abs(extract(epoch FROM known.seen_at - %(at)s)) > extract(epoch FROM %(gap)s::interval)
        THEN %(at)s ELSE known.since END,
    readings = CASE WHEN %(outage)s OR abs(extract(epoch FROM known.seen_at - %(at)s)) > extract(epoch FROM %(gap)s::interval)
        THEN 1 ELSE known.readings + 1 END
WHERE NOT (known.seen_at >= %(at)s AND known.seen_at <= %(at)s + %(gap)s::interval);

-- name: nodes_without_adapters
-- Nodes of which an adapter wasn't shown in the last reading of its fabric, however long that has been so.
-- Not of links: those of an idle node's adapters may be down until a guest has them.
SELECT DISTINCT ON (node) node, name, fabric FROM adapter_gone WHERE seen_at > %(after)s AND NOT of_link ORDER BY node, fabric, port;

-- name: adapters_gone_now
SELECT * FROM adapter_gone ORDER BY fabric, port;

-- part: gone
-- Adapters of pods' segments that fail. A server that is off takes its adapters with it; they were there once, since the
-- pod was READY with them.
gone AS (
    SELECT a.node, a.fabric, a.port, a.since, g.owner_id AS pod_id FROM adapter_gone a
    JOIN node_hold n ON n.node = a.node
    JOIN resource g ON g.owner_id = n.pod_id AND g.kind = 'segment' AND g.expunged IS NULL
        AND g.document ->> 'where' = a.fabric
        AND g.document #> '{spec,members}' @> jsonb_build_array(jsonb_build_object('port', a.port))
    JOIN resource s ON s.owner_id = n.pod_id AND s.kind = 'server' AND s.document ->> 'node' = a.node
        AND s.expunged IS NULL AND s.state = 'settled'
    JOIN pod r ON r.id = n.pod_id AND s.generation <= r.ready_generation
    WHERE (NOT a.of_link OR EXISTS (
        SELECT FROM adapter_up u WHERE (u.pod_id, u.fabric, u.port) = (n.pod_id, a.fabric, a.port)
    )) AND a.readings > 1 AND a.since <= %(at)s - %(adapter_gone)s::interval
        AND a.seen_at BETWEEN %(at)s - %(gap)s::interval AND %(at)s + %(gap)s::interval
)

-- part: failing
-- Nodes of live pods that fail now, and whether the pod's order asks for a replacement. A host counts as long as it is
-- read as down; of several causes of a node, the first one. What operators do comes before what its project says.
@gone
, failing AS (
    SELECT DISTINCT ON (h.pod_id, h.node) h.pod_id, h.node, f.kind, f.since, f.what,
        h.whole AND NOT h.spare AND coalesce(p.ordered ->> 'on_failure', '') = 'replace' AS replaces
    FROM (
        SELECT 1 AS rank, 'host' AS kind, node, since, NULL::uuid AS pod_id, '' AS what FROM host_down WHERE reported_at IS NOT NULL
            AND seen_at BETWEEN %(at)s - %(gap)s::interval AND %(at)s + %(gap)s::interval
        UNION ALL SELECT 2, 'server', document ->> 'node', since, owner_id, '' FROM resource
            WHERE kind = 'server' AND state = 'broken' AND expunged IS NULL AND since <= %(at)s - %(server_broken)s::interval
        UNION ALL SELECT 3, 'adapter', node, min(since), pod_id, '' FROM gone GROUP BY node, pod_id
        UNION ALL SELECT 4, 'check', node, since, NULL, code
            FROM jsonb_to_recordset(%(checks)s) AS c (node text, since timestamptz, code text)
        UNION ALL SELECT 5, 'drain', node, until_at, NULL, '' FROM drain WHERE until_at <= %(at)s AND NOT waits
        UNION ALL SELECT 6, 'report', node, at, pod_id, '' FROM node_report
    ) f JOIN node_hold h ON h.node = f.node AND h.leaving IS NULL AND coalesce(f.pod_id, h.pod_id) = h.pod_id
    JOIN pod p ON p.id = h.pod_id AND p.wanted = 'present' AND p.state <> 'RELEASED'
    -- a drained node is sound: it doesn't fail, but leaves a pod that asks for it
    WHERE f.kind <> 'drain' OR h.whole AND NOT h.spare AND coalesce(p.ordered ->> 'on_failure', '') = 'replace'
    ORDER BY h.pod_id, h.node, f.rank
)

-- name: lock_failures
-- Two turns would lock the same rows in different orders.
SELECT pg_advisory_xact_lock(hashtext('weft.failures'));

-- name: refresh_failures
-- A failure that goes on keeps what came of it. One whose replacement is asked for since now is due.
WITH
@failing
, over AS (
    DELETE FROM node_failure d WHERE NOT EXISTS (SELECT FROM failing f WHERE (f.pod_id, f.node) = (d.pod_id, d.node))
)
INSERT INTO node_failure AS known (pod_id, node, kind, since, what, replaces, next_at)
SELECT pod_id, node, kind, since, what, replaces, %(at)s FROM failing ORDER BY pod_id, node
ON CONFLICT (pod_id, node) DO UPDATE SET kind = excluded.kind, since = excluded.since, what = excluded.what, replaces = excluded.replaces,
    tried = CASE WHEN known.replaces THEN known.tried ELSE 0 END,
    next_at = CASE WHEN known.replaces THEN known.next_at ELSE excluded.next_at END,
    why = CASE WHEN excluded.replaces THEN known.why ELSE '""' END
WHERE (known.kind, known.since, known.what, known.replaces)
    IS DISTINCT FROM (excluded.kind, excluded.since, excluded.what, excluded.replaces)
RETURNING pod_id, node, kind, since, what, xmax = 0 AS new;

-- name: checks_failing
-- Failed checks of these codes, and whether the last result says so itself, and nothing else of the same part: what failed
-- stays a problem until it is judged.
SELECT c.node, c.at, c.expected, p ->> 'code' AS code, (p ->> 'since')::timestamptz AS since, (
    SELECT coalesce(bool_and(r ->> 'status' = 'failed'), false) FROM jsonb_array_elements(c.document -> 'results') r
    WHERE (r ->> 'code', r ->> 'subject') = (p ->> 'code', p ->> 'subject')
) AS confirmed
FROM node_check c, jsonb_array_elements(c.problems) p
WHERE c.problems @> '[{"status": "failed"}]' AND p ->> 'status' = 'failed' AND p ->> 'code' = ANY(%(codes)s)
ORDER BY c.node, since, code;

-- name: note_failure
INSERT INTO node_history (node, at, type, message, pod_id, pod, project_id)
SELECT %(node)s, %(at)s, 'failure', %(message)s, id, name, project_id FROM pod WHERE id = %(pod_id)s;

-- name: own_reset
SELECT at FROM own_reset WHERE server_id = %(server)s AND at > %(after)s;

-- name: note_own_reset
WITH old AS (DELETE FROM own_reset WHERE at < %(before)s AND server_id <> %(server)s)
INSERT INTO own_reset (server_id, at) VALUES (%(server)s, %(at)s) ON CONFLICT (server_id) DO UPDATE SET at = excluded.at;

-- name: claim_failure
-- One that would be due in hours was written before the clock was set back.
UPDATE node_failure f SET next_at = %(until)s, tried = tried + 1
FROM (
    SELECT pod_id, node FROM node_failure WHERE replaces AND (next_at <= %(at)s OR next_at > %(at)s + interval '1 hour')
    ORDER BY next_at, since, node LIMIT 1 FOR UPDATE SKIP LOCKED
) due WHERE (f.pod_id, f.node) = (due.pod_id, due.node) RETURNING f.*;

-- name: failures_of
SELECT * FROM node_failure WHERE pod_id = %(pod_id)s ORDER BY node;

-- name: note_not_replaced
UPDATE node_failure SET why = %(why)s, next_at = %(next_at)s WHERE (pod_id, node) = (%(pod_id)s, %(node)s) RETURNING tried;

-- name: failing_now
WITH
@failing
SELECT kind, since, what FROM failing WHERE (pod_id, node) = (%(pod_id)s, %(node)s) AND replaces;

-- name: adapters_failing
WITH
@gone
SELECT fabric, port FROM gone WHERE (pod_id, node) = (%(pod_id)s, %(node)s) ORDER BY fabric, port;

-- name: count_own_replacements
-- One is under way until the new node's server was seen, or the pod doesn't want that node any more; of those that have
-- lasted longer than since then, each project's count up to `most_stuck` against others.
WITH counted AS (
    -- counts, which are read for each row by an index; EXISTS may be planned as a look at whole tables
    SELECT r.at > %(since)s AS fresh, p.wanted = 'present' AND (
        SELECT count(*) FROM node_hold h WHERE h.pod_id = r.pod_id AND h.node = r.by_node AND h.leaving IS NULL
    ) > 0 AND (
        SELECT count(*) FROM resource s WHERE s.owner_id = r.pod_id AND s.kind = 'server' AND s.document ->> 'node' = r.by_node
            AND s.expunged IS NULL AND s.state = 'settled'
    ) = 0 AS waits, p.project_id
    FROM own_replacement r LEFT JOIN pod p ON p.id = r.pod_id WHERE r.at > %(kept)s
)
SELECT count(*) FILTER (WHERE fresh) AS in_an_hour,
    count(*) FILTER (WHERE fresh AND project_id = %(project_id)s) AS projects_in_an_hour,
    count(*) FILTER (WHERE fresh AND waits) + (SELECT coalesce(sum(stuck), 0) FROM (
        SELECT least(count(*), %(most_stuck)s) AS stuck FROM counted WHERE waits AND NOT fresh GROUP BY project_id
    ) each)::integer AS under_way,
    count(*) FILTER (WHERE waits AND project_id = %(project_id)s) AS projects_under_way
FROM counted;

-- name: is_own_replacement
SELECT true AS own FROM own_replacement WHERE (pod_id, generation) = (%(pod_id)s, %(generation)s);

-- name: note_own_replacement
-- The node isn't the pod's any more.
WITH over AS (DELETE FROM node_failure WHERE (pod_id, node) = (%(pod_id)s, %(node)s))
INSERT INTO own_replacement (pod_id, generation, by_node, at) VALUES (%(pod_id)s, %(generation)s, %(by_node)s, %(at)s);

-- name: forget_own_replacements
-- The one that a pod is still being changed by stays: until it is done, that change isn't another user's.
DELETE FROM own_replacement r WHERE at < %(before)s AND NOT EXISTS (
    SELECT FROM pod p WHERE (p.id, p.generation) = (r.pod_id, r.generation) AND p.changed_at IS NOT NULL
);

-- name: note_replaced
INSERT INTO node_history (node, at, type, message, by, pod_id, pod, project_id)
VALUES (%(node)s, %(at)s, 'replacement', %(message)s, %(by)s, %(pod_id)s, %(pod)s, %(project_id)s);

-- name: history_of_node
-- The newest first.
SELECT sequence, at, type, message, by, pod, project_id FROM node_history
WHERE node = %(node)s AND sequence < coalesce(%(before)s, 9223372036854775807) ORDER BY sequence DESC LIMIT %(limit)s;

-- name: prune_node_history
DELETE FROM node_history WHERE (node, sequence) IN (
    SELECT node, sequence FROM node_history WHERE at < %(before)s ORDER BY at LIMIT %(limit)s);

-- part: pod_row
INSERT INTO pod (id, site, project_id, name, created_by, created_at, ordered, units, plan, state, reason, since, lease_end,
    placed_at, not_before, fixed, expected_start, phase, next_at)
VALUES (%(id)s, %(plan)s::jsonb ->> 'site', %(project_id)s, %(name)s, %(created_by)s, %(at)s, %(ordered)s, %(units)s, %(plan)s,
    %(state)s, %(reason)s, %(at)s,
    %(lease_end)s, %(placed_at)s, %(not_before)s, %(fixed)s, %(expected_start)s,
    CASE WHEN %(plan)s::jsonb IS NULL THEN 'ordered' ELSE 'building' END, now() + %(delay)s * interval '1 second')

-- name: insert_pod
-- Without a plan it waits: with a start booked with the order (`fixed`), or in the queue. Workers ignore it for `delay`
-- seconds.
@pod_row;

-- name: confirm_pod
-- What it claimed was checked: workers may claim it, and are notified afterwards. No row: the claim was lost.
UPDATE pod SET next_at = now() WHERE id = %(id)s RETURNING id;

-- name: is_confirmed
-- Whether a pod's claim was confirmed, or workers may claim it although it wasn't.
SELECT FROM pod WHERE id = %(id)s AND (token > 0 OR next_at <= now());

-- name: drop_claim
-- No row: a worker has held it, or it was changed, or its release was requested; then it takes its normal course.
DELETE FROM pod WHERE id = %(id)s AND token = 0 AND wanted = 'present' AND generation = 1 RETURNING placed_at;

-- name: drop_node_history
-- What the triggers wrote of a claim that is dropped: slots at the time at which its transaction began, which may have waited
-- for the lock. Looked for by time: a node's whole history may be long.
DELETE FROM node_history WHERE pod_id = %(pod_id)s AND type = 'pod' AND at >= %(claimed)s - interval '10 minutes';

-- name: drop_events
DELETE FROM event WHERE owner_id = %(owner_id)s;

-- name: drop_resources
DELETE FROM resource WHERE owner_id = %(owner_id)s;

-- name: start_pod
-- A waiting order gets its nodes. No row: it was withdrawn meanwhile.
UPDATE pod SET plan = %(plan)s, site = %(plan)s::jsonb ->> 'site', state = 'PLACED',
    phase = 'building', conditions = '[]', reason = '""', since = %(at)s, lease_end = %(lease_end)s,
    placed_at = %(at)s, position = NULL, expected_start = NULL, woken = woken + 1, next_at = now()
WHERE id = %(id)s AND plan IS NULL AND state = 'PENDING' RETURNING id;

-- name: waiting_pods
-- An unreadable one is tried again when it is due. A reader that has seen this version of a row has its document, which
-- is large.
SELECT id, project_id, name, created_by, coalesce(queued_at, created_at) AS created_at, xmin::text AS version, reason, lease_end, not_before, fixed, position,
    expected_start, generation, parked
FROM pod WHERE plan IS NULL AND state = 'PENDING' AND (parked IS NULL OR next_at <= now()) ORDER BY arrival;

-- name: orders_of
SELECT id, ordered FROM pod WHERE id = ANY(%(ids)s);

-- name: waiting_of_project
SELECT count(*) AS number FROM pod WHERE plan IS NULL AND state = 'PENDING' AND project_id = %(project_id)s;

-- name: overdue_of_project
-- Releases that were worked on for too long, and those that ended with numbers in use.
SELECT name FROM pod
WHERE project_id = %(project_id)s AND (
    (state = 'RELEASING' AND split_part(worked_by, ' ', 1) = 'release' AND worked > %(seconds)s)
    OR (state = 'RELEASED' AND EXISTS (SELECT FROM number_hold WHERE owner_id = pod.id)))
ORDER BY since, name;

-- name: count_queue
SELECT count(*) AS number FROM pod WHERE plan IS NULL AND state = 'PENDING' AND NOT fixed;

-- name: park_held
-- The row can't be read: its worker sets it aside with its reason and an alarm, and hands it back. It is tried again
-- later, or at once if it was woken meanwhile; lands: as in write_held. No row: another worker holds it. News: it
-- wasn't reported before.
UPDATE owner SET parked = %(why)s, alarmed = true, worker = NULL, held_until = NULL,
    late_until = greatest(late_until, now() + %(lands)s::float8 * interval '1 second'),
    next_at = CASE WHEN woken > %(woken)s THEN now() ELSE now() + %(delay)s * interval '1 second' END
WHERE id = %(id)s AND token = %(token)s
RETURNING (SELECT old.parked IS DISTINCT FROM %(why)s FROM owner old WHERE old.id = %(id)s) AS news;

-- name: park_waiting
-- The same for a waiting order. No row: it has changed since it was read.
UPDATE pod SET parked = %(why)s, alarmed = true, next_at = now() + %(delay)s * interval '1 second'
WHERE id = %(id)s AND xmin::text = %(version)s
RETURNING (SELECT old.parked IS DISTINCT FROM %(why)s FROM pod old WHERE old.id = %(id)s) AS news;

-- name: unpark
UPDATE owner SET parked = NULL, alarmed = false WHERE id = %(id)s AND parked IS NOT NULL;

-- name: late_waiting_pods
-- Waiting orders whose lease is over.
SELECT id FROM pod WHERE plan IS NULL AND state IN ('PENDING', 'FAILED') AND lease_end <= %(at)s;

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

-- name: touch_queue
-- Something changed that may let an order start: process the queue at this time, or sooner. The row is written, and so
-- locked, even if it is due: take_queue would not see the change otherwise.
UPDATE queue SET next_at = least(next_at, %(at)s);

-- name: queue_at
SELECT next_at FROM queue;

-- name: insert_reservation
INSERT INTO reservation (name, project_id, nodes, start_at, end_at, reason, created_by, created_at)
VALUES (%(name)s, %(project_id)s, %(nodes)s, %(start)s, %(end)s, %(reason)s, %(created_by)s, %(at)s) RETURNING *;

-- name: delete_reservation
DELETE FROM reservation WHERE name = %(name)s RETURNING *;

-- name: lengthen_waiting
-- The next generation of a waiting order, with another lease. No row: it has begun meanwhile, or was withdrawn.
UPDATE pod SET generation = generation + 1, ordered = %(ordered)s, lease_end = %(lease_end)s
WHERE id = %(id)s AND generation = %(base)s AND wanted = 'present' AND plan IS NULL AND state = 'PENDING' RETURNING id;

-- name: warn_leases
-- Leases that end in an hour, or in the last tenth of a short one, once each. Skips locked rows, which stay due.
WITH it AS MATERIALIZED (
    SELECT id FROM pod
    WHERE wanted = 'present' AND NOT lease_warned AND plan IS NOT NULL AND state <> 'RELEASED'
      AND lease_end - least(interval '1 hour', (lease_end - placed_at) / 10) <= %(at)s AND lease_end > %(at)s
      AND lease_end <= %(at)s + interval '1 hour'
    FOR UPDATE SKIP LOCKED
)
UPDATE pod p SET lease_warned = true FROM it WHERE p.id = it.id RETURNING p.id, p.lease_end;

-- name: due
-- Whether there is work for late_waiting_pods, end_leases or warn_leases; and when the queue is due.
WITH it AS MATERIALIZED (SELECT coalesce(%(at)s::timestamptz, clock_timestamp()) AS at)
SELECT it.at, queue.next_at AS queue, EXISTS (
    SELECT FROM pod WHERE plan IS NULL AND state IN ('PENDING', 'FAILED') AND lease_end <= it.at
) OR EXISTS (
    SELECT FROM pod WHERE wanted = 'present' AND lease_end <= it.at AND state <> 'RELEASED' AND plan IS NOT NULL
) OR EXISTS (
    SELECT FROM pod WHERE wanted = 'present' AND NOT lease_warned AND plan IS NOT NULL AND state <> 'RELEASED'
      AND lease_end - least(interval '1 hour', (lease_end - placed_at) / 10) <= it.at AND lease_end > it.at
      AND lease_end <= it.at + interval '1 hour'
) AS leases FROM it, queue;

-- name: retry_pod
-- What failed is tried again where it failed, and what broke gets all its attempts again; a visit under way starts
-- over.
UPDATE pod SET alarmed = false, failures = 0, woken = woken + 1, next_at = now(), retries = retries + 1
WHERE id = %(id)s AND state = 'FAILED' AND wanted = 'present' RETURNING *;

-- name: forget_attempts
UPDATE resource SET attempts = 0 WHERE owner_id = %(owner_id)s AND state <> 'settled';
-- name: renumber_resource
-- Seen absent, to be recreated with other numbers. Its last id outside is kept until it has another, except for data
-- (`forgets`), which may have stayed outside as someone else's.
UPDATE resource SET document = %(document)s, state = 'wanted', reason = '""', differences = '[]', attempts = 0,
    outside_id = CASE WHEN NOT %(forgets)s THEN outside_id END
WHERE owner_id = %(owner_id)s AND key = %(key)s AND state IN ('absent', 'wanted');

-- name: renumber_pod
UPDATE pod SET plan = %(plan)s, taken = NULL WHERE id = %(id)s;

-- name: renumber_node
-- Seen absent or never requested, to be created under another number of its pod. No row: it was requested.
UPDATE resource SET document = %(document)s
WHERE owner_id = %(owner_id)s AND key = %(key)s AND state IN ('absent', 'wanted') AND expunged IS NULL
RETURNING key;

-- name: replan_pod
UPDATE pod SET plan = %(plan)s WHERE id = %(id)s;

-- name: number_taken
-- Everything of the pod is removed before it gets another number.
UPDATE owner SET taken = %(taken)s WHERE id = %(id)s;

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
    INSERT INTO event (owner_id, project_id, at, type, message)
    SELECT %(owner_id)s::uuid, %(project_id)s::text, %(at)s, 'state', m.said
    FROM jsonb_array_elements(%(messages)s) WITH ORDINALITY AS m (said, n) ORDER BY m.n
)

-- name: claim
-- Resources, nodes, numbers and subnets of a plan become a pod's; its cloud counts one more claim.
WITH
@claims
SELECT pg_notify('weft_event', %(owner_id)s::uuid::text);

-- name: claim_new
-- As claim, for a new pod: with its row. Doesn't notify: it has no followers yet, and a transaction that notifies waits
-- for the disk of all others that do, while others wait for the lock.
WITH pod_row AS (
    @pod_row
),
@claims
SELECT;

-- part: listed
-- What a list shows of a pod.
SELECT id, project_id, name, phase, state, reason, since, created_at, lease_end, nodes, fabric,
    segment, position, expected_start, parked
FROM pod

-- part: not_replaced
-- Whether a node of the pod fails and could not be replaced as its order asks for.
EXISTS (SELECT FROM node_failure f WHERE f.pod_id = pod.id AND f.replaces AND f.why <> '""')

-- part: searched
-- A page of the requested pods, after the last one of the page before. Alarmed as in count_pods.
  AND (NOT %(alarmed)s OR state <> 'RELEASED' AND (alarmed
    OR
    @not_replaced
    OR extract(epoch FROM %(at)s - since) > (
    SELECT l.seconds FROM unnest(%(limited)s::text[], %(seconds)s::float8[]) AS l (state, seconds)
    WHERE l.state = pod.state::text)))
  AND (name, id) > (%(after_name)s, %(after_id)s) AND (%(name)s::text IS NULL OR name = %(name)s)
  AND (%(state)s::text IS NULL OR state = %(state)s)
  AND (%(node)s::text IS NULL OR id IN (SELECT pod_id FROM node_hold WHERE node = %(node)s
    UNION ALL SELECT owner_id FROM number_hold WHERE space = 'host/' || %(node)s))
  AND (%(server)s::text IS NULL OR EXISTS (SELECT FROM resource r WHERE r.owner_id = pod.id AND r.kind = 'server'
    AND r.document->>'name' = %(server)s AND coalesce(r.document->>'owner', 'tenant') = 'tenant' AND r.state <> 'absent'))
ORDER BY name, id LIMIT %(limit)s

-- name: pods_of_project
-- A page: live ones, and those released recently, after the last one of the page before. Only what a list shows.
(
@listed
WHERE project_id = %(project_id)s AND state <> 'RELEASED'
@searched
)
UNION ALL
(
@listed
WHERE project_id = %(project_id)s AND state = 'RELEASED' AND released_at > %(since)s
@searched
)
ORDER BY name, id LIMIT %(limit)s;

-- name: pods_of_all
-- As pods_of_project, for all projects.
(
@listed
WHERE state <> 'RELEASED'
@searched
)
UNION ALL
(
@listed
WHERE state = 'RELEASED' AND released_at > %(since)s
@searched
)
ORDER BY name, id LIMIT %(limit)s;

-- name: search_at_most
-- For the rest of this transaction.
SELECT set_config('statement_timeout', %(milliseconds)s, true);

-- name: searched_owners
-- Pods, networks and sites with exactly this value. With a project only its own, by what is the tenant's: not by ports
-- and servers of the site's own project; and only its own resources are read, whatever others have. Released ones by
-- their id, and by numbers that they still keep.
SELECT DISTINCT ON (o.name, o.id) o.id, coalesce(o.kind, 'pod') AS kind, o.name, o.project_id, o.state, f.what
FROM (
    SELECT id, 'name' AS what, false AS ended FROM owner WHERE name = %(text)s
        AND (%(project_id)s::text IS NULL OR project_id = %(project_id)s)
    UNION ALL SELECT id, 'id', true FROM owner WHERE id = %(id)s
    UNION ALL SELECT owner_id, space || ' ' || number, true FROM number_hold
        WHERE number = ANY(%(numbers)s) AND space !~ '^(host|controller)/'
    UNION ALL SELECT pod_id, 'node ' || node, false FROM node_hold WHERE node = %(text)s
    UNION ALL SELECT owner_id, 'node ' || %(text)s::text, false FROM number_hold WHERE space = 'host/' || %(text)s::text
    UNION ALL SELECT owner_id, kind || ' ' || (document->>'name'), false FROM resource
        WHERE state <> 'absent' AND (%(project_id)s::text IS NULL OR coalesce(document->>'owner', 'tenant') = 'tenant')
            AND (%(project_id)s::text IS NULL OR owner_id = ANY(ARRAY(
                SELECT id FROM owner WHERE project_id = %(project_id)s AND state <> 'RELEASED')))
            AND (%(project_id)s::text IS NULL OR kind = ANY(%(kinds)s))
            AND (outside_id = %(text)s OR kind = 'server' AND document->>'name' = %(text)s)
    UNION ALL SELECT owner_id, 'address of ' || (document->>'name'), false FROM resource
        WHERE %(address)s::text IS NOT NULL AND state <> 'absent' AND kind IN ('port', 'floating_ip')
            AND (%(project_id)s::text IS NULL OR coalesce(document->>'owner', 'tenant') = 'tenant')
            AND (%(project_id)s::text IS NULL OR owner_id = ANY(ARRAY(
                SELECT id FROM owner WHERE project_id = %(project_id)s AND state <> 'RELEASED')))
            AND (document->'spec'->>'address' = %(address)s OR facts->>'address' = %(address)s)
    UNION ALL SELECT owner_id, 'MAC address of ' || (document->>'name'), false FROM resource
        WHERE %(mac)s::text IS NOT NULL AND state <> 'absent' AND kind = 'port' AND %(project_id)s::text IS NULL
            AND (document->'spec'->>'mac' = %(mac)s OR facts->>'mac' = %(mac)s)
) f JOIN owner o USING (id)
WHERE (%(project_id)s::text IS NULL OR o.project_id = %(project_id)s) AND (f.ended OR o.state <> 'RELEASED')
ORDER BY o.name, o.id, f.what LIMIT %(limit)s;

-- name: insert_owner
-- The site or a network, for the workers; its first visit finds out what is wanted of it.
INSERT INTO owner (id, kind, site, project_id, name, created_by, created_at, state, since, phase, next_at)
VALUES (%(id)s, %(kind)s, %(site)s, %(project_id)s, %(name)s, %(by)s, %(at)s, 'PLACED', %(at)s, 'building', now());

-- name: follow_owner
-- The next generation of what is wanted of an owner other than a pod.
UPDATE ONLY owner SET generation = generation + 1, changed_at = coalesce(changed_at, %(at)s) WHERE id = %(id)s
RETURNING generation, changed_at;

-- name: live_owners
-- Owners other than pods.
SELECT * FROM ONLY owner WHERE state <> 'RELEASED' ORDER BY created_at, id;

-- name: owners_released_since
-- Owners other than pods, the last released first.
SELECT * FROM ONLY owner WHERE state = 'RELEASED' AND released_at >= %(since)s
    AND (released_at, id) < (%(at)s::timestamptz, %(last)s::uuid)
ORDER BY released_at DESC, id DESC LIMIT %(limit)s;

-- name: released_owners_with_numbers
-- As released_pods_with_numbers, for owners other than pods.
SELECT * FROM ONLY owner WHERE state = 'RELEASED'
    AND id IN (SELECT owner_id FROM number_hold) AND (released_at, id) > (%(at)s::timestamptz, %(last)s::uuid)
ORDER BY released_at, id LIMIT %(limit)s;

-- name: who_holds
-- Who has a number, or may still have it: a standby manager may have it configured.
SELECT o.kind, o.name, h.owner_id FROM (
    SELECT owner_id FROM number_hold WHERE space = %(space)s AND number = %(number)s
    UNION ALL SELECT owner_id FROM stale_number WHERE 'segment/' || fabric = %(space)s AND number = %(number)s
) h LEFT JOIN owner o ON o.id = h.owner_id LIMIT 1;

-- name: owner_by_id
-- An owner other than a pod.
SELECT * FROM ONLY owner WHERE id = %(id)s;

-- name: pod_by_id
SELECT * FROM pod WHERE id = %(id)s;

-- part: pod_fields
-- The columns of a pod's row, except its plan.
id, kind, site, project_id, name, created_by, created_at, wanted, phase, conditions, reason, since, released_at,
    failures, woken, token, repair, late_until, abandoned_by, abandoned_why, abandoned_at, abandoned_own, abandoned_worked, worked, worked_at, worked_by,
    swept_at, taken, watched_at, generation, retries, ready_generation, ready_at, changed_at, ordered, placed_at, lease_end, not_before, fixed, position,
    expected_start

-- name: pod_to_show
-- A pod's row as pod_by_id, without the graph in its plan, and whether it has a receipt.
SELECT
    @pod_fields, plan || '{"graph": {"resources": []}}' AS plan,
    EXISTS (SELECT FROM receipt WHERE owner_id = pod.id) AS has_receipt,
    -- drained nodes that it has, whole, in parts, or as hosts of its servers
    ARRAY(SELECT row_to_json(m) FROM (
        SELECT h.*,
            @inner_host AS inner_host
        FROM (SELECT d.*, pod.id AS pod_id FROM drain d) h
        WHERE EXISTS (SELECT FROM node_hold o WHERE (o.node, o.pod_id) = (h.node, pod.id))
            OR EXISTS (SELECT FROM number_hold n WHERE (n.space, n.owner_id) = ('host/' || h.node, pod.id))) m) AS drains,
    ARRAY(SELECT row_to_json(f) FROM node_failure f WHERE f.pod_id = pod.id) AS failures,
    -- checks that failed on its nodes: machine's words are left out
    ARRAY(SELECT json_build_object('node', h.node, 'code', p ->> 'code', 'since', p ->> 'since', 'inner_host',
            @inner_host)
        FROM (SELECT c.*, pod.id AS pod_id FROM node_check c) h, jsonb_array_elements(h.problems) p WHERE p ->> 'status' = 'failed'
            AND (EXISTS (SELECT FROM node_hold o WHERE (o.node, o.pod_id) = (h.node, pod.id))
                OR EXISTS (SELECT FROM number_hold n WHERE (n.space, n.owner_id) = ('host/' || h.node, pod.id)))
        ORDER BY h.node, p ->> 'since', p ->> 'code' LIMIT 1000) AS checks,
    ARRAY(SELECT json_build_object('since', b.at, 'result', b.document #>> '{certificate,result}', 'hosts', b.hosts)
        FROM bandwidth_certificate b WHERE b.pod_id = pod.id ORDER BY b.at DESC LIMIT 1) AS bandwidth
FROM pod WHERE id = %(id)s;

-- name: resources_to_show
-- As resources_of, only what people see.
SELECT key, kind, state, outside_id, reason, differences, facts, started_at, finished_at, document, owner_id, generation, expunged
FROM resource WHERE owner_id = %(owner_id)s ORDER BY position, key;

-- name: which_pod_by_id
SELECT id, project_id, state, changed_at IS NOT NULL AS changing,
    (SELECT coalesce(max(sequence), 0) FROM event WHERE owner_id = pod.id) AS last_event
FROM pod WHERE id = %(id)s;

-- name: which_pod
-- The live one of that name, otherwise the one released last.
SELECT id, project_id, state, changed_at IS NOT NULL AS changing,
    (SELECT coalesce(max(sequence), 0) FROM event WHERE owner_id = pod.id) AS last_event
FROM pod WHERE project_id = %(project_id)s AND name = %(name)s
ORDER BY (state <> 'RELEASED') DESC, created_at DESC LIMIT 1;

-- name: which_pod_anywhere
-- For operators, who see all projects.
SELECT id, project_id, state, changed_at IS NOT NULL AS changing,
    (SELECT coalesce(max(sequence), 0) FROM event WHERE owner_id = pod.id) AS last_event
FROM pod WHERE name = %(name)s ORDER BY (state <> 'RELEASED') DESC, created_at DESC LIMIT 2;

-- name: look_at_owners
-- As which_pod_by_id, for all pods and other owners that are followed and had an event.
SELECT id, project_id, state, changed_at IS NOT NULL AS changing,
    (SELECT coalesce(max(sequence), 0) FROM event WHERE owner_id = owner.id) AS last_event
FROM owner WHERE id = ANY(%(ids)s);

-- name: live_pods
-- Those that have, or may have, something outside: not the waiting ones.
SELECT * FROM pod WHERE state <> 'RELEASED' AND plan IS NOT NULL ORDER BY created_at, id;

-- name: homes
-- Where everything is that has, or may have, something outside.
SELECT name, fabric, cloud, plan ->> 'flavor' AS flavor FROM pod WHERE state <> 'RELEASED' AND plan IS NOT NULL;

-- name: count_pods
-- By state, with the time that the oldest has been in it and how many have an alarm, or have been in it for longer than
-- its limit: without workers there are no alarms. Released ones aren't counted: their number only grows.
SELECT state, count(*) AS number, extract(epoch FROM %(at)s - min(since))::float8 AS oldest,
    count(*) FILTER (WHERE alarmed
        OR
        @not_replaced
        OR extract(epoch FROM %(at)s - since) > seconds) AS alarmed
FROM pod LEFT JOIN unnest(%(limited)s::text[], %(seconds)s::float8[]) AS limits (limited, seconds) ON limited = state::text
WHERE state <> 'RELEASED' GROUP BY state;

-- name: worker_lives
-- Workers that ended without a notice are removed after an hour.
WITH ended AS (DELETE FROM worker_seen WHERE name <> %(name)s AND seen_at < clock_timestamp() - interval '1 hour')
INSERT INTO worker_seen (name, seen_at, version) VALUES (%(name)s, clock_timestamp(), %(version)s)
ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at, version = excluded.version;

-- name: worker_ends
DELETE FROM worker_seen WHERE name = %(name)s;

-- name: count_workers
SELECT count(*) AS number FROM worker_seen WHERE seen_at > clock_timestamp() - %(seconds)s * interval '1 second';

-- name: count_busy
SELECT count(DISTINCT node) AS number FROM node_hold;

-- name: count_quarantined
SELECT count(*) AS number FROM quarantine;

-- name: count_drained
SELECT count(*) AS number FROM drain;

-- name: count_held
SELECT count(DISTINCT node) AS number FROM acceptance;

-- name: count_parked
SELECT count(*) AS number FROM owner WHERE parked IS NOT NULL AND state <> 'RELEASED';

-- name: resources_of
SELECT *, coalesce(%(at)s::timestamptz, clock_timestamp()) AS at FROM resource
WHERE owner_id = ANY(%(owners)s) ORDER BY owner_id, position, key;

-- name: release_pod
-- Changes only what is wanted; the loop does the work. An order that waits, or that failed before it had anything, ends
-- at once: nothing of it is outside. A pod whose release was requested before is woken once more. `late`: only a
-- waiting order whose lease is over.
WITH it AS MATERIALIZED (
    SELECT id, coalesce(%(at)s::timestamptz, clock_timestamp()) AS at, state, wanted = 'present' AS asked,
        plan IS NULL AND state IN ('PENDING', 'FAILED') AS withdrawn
    FROM pod WHERE id = %(id)s AND (NOT %(late)s OR plan IS NULL AND state IN ('PENDING', 'FAILED') AND lease_end <= %(at)s)
    FOR UPDATE
), withdrawn AS (
    UPDATE pod p SET wanted = 'absent', state = 'RELEASED', phase = 'released', conditions = '[]', reason = '""', since = it.at,
        released_at = it.at, position = NULL, expected_start = NULL
    FROM it WHERE p.id = it.id AND it.withdrawn
), asked AS (
    UPDATE pod p SET wanted = 'absent', woken = woken + 1, next_at = now(),
        failures = CASE WHEN it.asked THEN 0 ELSE failures END
    FROM it WHERE p.id = it.id AND NOT it.withdrawn AND it.state <> 'RELEASED'
), unbooked AS (
    DELETE FROM booking r USING it WHERE r.pod_id = it.id AND it.withdrawn
), written_events AS (
    INSERT INTO event (owner_id, at, type, message)
    SELECT it.id, it.at, e.type, e.message FROM it, (VALUES
        (1, 'release', %(message)s::jsonb), (2, 'state', %(withdrawn)s::jsonb)) AS e (n, type, message)
    WHERE e.n = 1 AND (it.asked OR it.withdrawn) OR e.n = 2 AND it.withdrawn ORDER BY e.n
), queued AS (
    UPDATE queue q SET next_at = least(q.next_at, it.at) FROM it WHERE it.asked OR it.withdrawn
)
SELECT asked OR withdrawn AS asked, pg_notify('weft_event', id::text) FROM it;

-- name: release_owner
-- The same for an owner other than a pod.
WITH asked AS (
    UPDATE owner SET wanted = 'absent', woken = woken + 1, next_at = now(), failures = 0
    WHERE id = %(id)s AND wanted = 'present' RETURNING id
), written_events AS (
    INSERT INTO event (owner_id, at, type, message)
    SELECT id, coalesce(%(at)s::timestamptz, clock_timestamp()), 'release', %(message)s FROM asked
)
SELECT true AS asked, pg_notify('weft_event', id::text) FROM asked;

-- name: leave_owner
-- Ends an owner other than a pod, and leaves everything of it outside to another manager: weft forgets it, so that none
-- of it counts as remains of a release. A worker that holds it is refused from here on.
WITH ended AS (
    UPDATE ONLY owner SET wanted = 'absent', state = 'RELEASED', phase = 'released', conditions = '[]', reason = '""',
        since = %(at)s, released_at = %(at)s, token = token + 1, worker = NULL, held_until = NULL, woken = woken + 1
    WHERE id = %(id)s AND wanted = 'present' RETURNING id
), segments AS (
    SELECT document ->> 'where' AS place, outside_id FROM resource
    WHERE owner_id IN (SELECT id FROM ended) AND kind = 'segment' AND outside_id IS NOT NULL
), resources AS (
    DELETE FROM resource WHERE owner_id IN (SELECT id FROM ended)
), earlier AS (
    -- owners of the number before: it would look like theirs, back after their release
    DELETE FROM resource r USING segments s, owner o WHERE r.kind = 'segment' AND r.outside_id = s.outside_id
        AND r.document ->> 'where' = s.place AND o.id = r.owner_id AND o.state = 'RELEASED'
), numbers AS (
    DELETE FROM number_hold WHERE owner_id IN (SELECT id FROM ended)
), written_events AS (
    INSERT INTO event (owner_id, at, type, message) SELECT id, %(at)s, 'release', %(message)s FROM ended
)
SELECT pg_notify('weft_event', id::text) FROM ended;

-- name: request_repair
-- An operator asks to repair everything of it, including servers.
UPDATE owner SET repair = true, woken = woken + 1, next_at = now()
WHERE id = %(id)s AND wanted = 'present' AND state <> 'RELEASED';

-- name: owners_under_repair
SELECT id FROM owner WHERE repair AND state <> 'RELEASED';

-- name: repaired_owner
UPDATE owner SET repair = false WHERE id = %(id)s;

-- name: wake_owner
UPDATE owner SET woken = woken + 1, next_at = now() WHERE id = %(id)s AND state <> 'RELEASED';

-- name: wake_busy
-- Pods in use on these nodes that are still members by the last record. Skips locked rows: the next look wakes them.
WITH it AS MATERIALIZED (
    SELECT o.id, h.node FROM node_hold h JOIN pod o ON o.id = h.pod_id
    WHERE h.node = ANY(%(nodes)s) AND h.withheld = '' AND h.leaving IS NULL AND NOT h.spare
        AND o.wanted = 'present' AND o.state IN ('READY', 'DEGRADED', 'VERIFYING', 'FAILED')
    FOR UPDATE OF o SKIP LOCKED
), woken AS (
    UPDATE pod o SET woken = woken + 1, next_at = now() FROM it WHERE o.id = it.id
)
SELECT id, node, pg_notify('weft_event', id::text) FROM it;

-- name: take_machine_looks
-- Of these clouds with machines, those that no worker asks, or has just asked: the caller asks them, for all machines
-- (`listing`) or for those that changed last. And the time now.
INSERT INTO machine_look AS l (cloud, until)
SELECT cloud, now() + %(answer)s * interval '1 second' FROM unnest(%(clouds)s::text[]) AS c (cloud) ORDER BY 1
ON CONFLICT (cloud) DO UPDATE SET until = excluded.until WHERE l.until <= now()
RETURNING l.cloud, now() AS at, l.list_at <= now() AS listing;

-- name: machines_in_use
-- Whether a machine of these nodes is in use by a pod, and a member (as in `wake_busy`).
SELECT EXISTS (
    SELECT FROM node_hold h JOIN pod o ON o.id = h.pod_id
    WHERE h.node = ANY(%(nodes)s) AND h.withheld = '' AND h.leaving IS NULL AND NOT h.spare
        AND o.wanted = 'present' AND o.state IN ('READY', 'DEGRADED', 'VERIFYING', 'FAILED')
) AS used;

-- name: end_machine_look
-- The next look may begin that long after this one, and list all machines that long after it (null: this one listed
-- none), unless another worker is asking by now (`answer`: as it was claimed): then what the caller saw may be old. And
-- the time now.
UPDATE machine_look SET until = %(asked)s::timestamptz + %(again)s * interval '1 second',
    list_at = coalesce(%(asked)s::timestamptz + %(every)s::float8 * interval '1 second', list_at)
WHERE cloud = %(cloud)s AND until = %(asked)s::timestamptz + %(answer)s * interval '1 second' RETURNING now() AS at;

-- name: cleanings_watched
SELECT machine, plan, agent, since, looked, ended FROM machine_cleaning WHERE cloud = %(cloud)s;

-- name: cleaning_watched
SELECT machine, plan, agent, since, looked, ended FROM machine_cleaning
WHERE cloud = %(cloud)s AND machine = %(machine)s;

-- name: put_cleaning
INSERT INTO machine_cleaning (cloud, machine, plan, agent, since, looked, ended)
VALUES (%(cloud)s, %(machine)s, %(plan)s, %(agent)s, %(since)s, %(looked)s, %(ended)s)
ON CONFLICT (cloud, machine) DO UPDATE SET plan = excluded.plan, agent = excluded.agent, since = excluded.since,
    looked = excluded.looked, ended = excluded.ended;

-- name: drop_cleaning
DELETE FROM machine_cleaning WHERE cloud = %(cloud)s AND machine = %(machine)s;

-- name: machine_taken
SELECT ended, used FROM machine_taken WHERE cloud = %(cloud)s AND machine = %(machine)s;

-- name: take_machine
-- By this cleaning. An older or known one changes nothing: it is a late worker's, or a restored Ironic's.
INSERT INTO machine_taken AS t (cloud, machine, ended) VALUES (%(cloud)s, %(machine)s, %(ended)s)
ON CONFLICT (cloud, machine) DO UPDATE SET ended = excluded.ended, at = now(), used = false
WHERE t.ended < excluded.ended;

-- name: use_machines
-- These weren't as the cleaning left them any more, when that was asked.
UPDATE machine_taken SET used = true
WHERE cloud = %(cloud)s AND machine = ANY(%(machines)s) AND NOT used AND at < %(asked)s;

-- name: take_boot_looks
-- Of these clouds, those that no worker asks, or has just asked, and in which servers boot: the caller asks them. Also
-- when the last answered query was sent, and the time now.
WITH turn AS MATERIALIZED (
    SELECT cloud FROM unnest(%(clouds)s::text[]) AS c (cloud)
    WHERE NOT EXISTS (SELECT FROM boot_look l WHERE l.cloud = c.cloud AND l.until > now())
)
INSERT INTO boot_look AS b (cloud, until)
SELECT turn.cloud, now() + %(answer)s * interval '1 second' FROM turn CROSS JOIN LATERAL (
    -- The first that is found is enough, looked for pod by pod, and only if it is the caller's turn.
    SELECT FROM pod p CROSS JOIN LATERAL (
        SELECT FROM resource r WHERE r.owner_id = p.id AND r.kind = ANY(%(kinds)s) AND r.state = 'pending'
            AND r.since > now() - %(longest)s * interval '1 second' AND r.document ->> 'where' = turn.cloud LIMIT 1
    ) server
    WHERE p.state <> 'RELEASED' AND p.wanted = 'present' AND (p.state <> 'READY' OR p.repair OR p.changed_at IS NOT NULL)
    ORDER BY p.next_at LIMIT 1
) booting ORDER BY turn.cloud
ON CONFLICT (cloud) DO UPDATE SET until = excluded.until WHERE b.until <= now()
RETURNING b.cloud, b.answered, now() AS at;

-- name: awaited_servers
-- Ids of a cloud's booting servers, for clouds that can't list servers by their change.
SELECT r.outside_id AS id FROM pod p JOIN resource r ON r.owner_id = p.id
WHERE p.state <> 'RELEASED' AND p.wanted = 'present' AND (p.state <> 'READY' OR p.repair OR p.changed_at IS NOT NULL)
    AND r.kind = ANY(%(kinds)s) AND r.state = 'pending' AND r.since > now() - %(longest)s * interval '1 second'
    AND r.document ->> 'where' = %(cloud)s AND r.outside_id <> '';

-- name: end_boot_look
-- The next query may be sent that long after this one, unless another worker is asking by now (`answer`: as it was
-- claimed); answered: when the query was sent, or null if there was no answer.
UPDATE boot_look SET answered = greatest(answered, %(answered)s::timestamptz),
    until = CASE WHEN until = %(asked)s::timestamptz + %(answer)s * interval '1 second'
        THEN %(asked)s::timestamptz + %(every)s * interval '1 second' ELSE until END
WHERE cloud = %(cloud)s;

-- name: wake_built
-- Pods that wait for these servers, unless they are due anyway, or wait after a failure; notifies their followers.
-- Skips locked rows: the next answer has their servers again.
WITH it AS MATERIALIZED (
    SELECT p.id FROM pod p
    WHERE p.state <> 'RELEASED' AND p.wanted = 'present' AND (p.state <> 'READY' OR p.repair OR p.changed_at IS NOT NULL)
        AND p.next_at > now() AND p.failures = 0 AND EXISTS (
            SELECT FROM resource r WHERE r.owner_id = p.id AND r.kind = ANY(%(kinds)s) AND r.state = 'pending'
                AND r.outside_id = ANY(%(servers)s))
    FOR UPDATE SKIP LOCKED
), woken AS (
    UPDATE pod p SET woken = woken + 1, next_at = now() FROM it WHERE p.id = it.id
)
SELECT pg_notify('weft_event', id::text) FROM it;

-- name: end_leases
-- Requests the release of pods whose lease has ended. Skips locked rows, which stay due (`due`), and those in clouds
-- whose note can't be read (`unread`).
WITH it AS MATERIALIZED (
    SELECT id FROM pod WHERE wanted = 'present' AND lease_end <= %(at)s AND state <> 'RELEASED' AND plan IS NOT NULL
      AND NOT coalesce(cloud = ANY (%(unread)s::text[]), false)
    FOR UPDATE SKIP LOCKED
), ended AS (
    UPDATE pod p SET wanted = 'absent', woken = woken + 1, next_at = now() FROM it WHERE p.id = it.id
), written_events AS (
    INSERT INTO event (owner_id, at, type, message) SELECT id, %(at)s, 'release', %(message)s FROM it
)
SELECT id, pg_notify('weft_event', id::text) FROM it;

-- part: claimed
-- Owners of any kind, unless a worker holds them; the token grows, so an older holder is refused. A holder that never
-- handed back may have a request under way: late_until. With the pod's row, if it is a pod: as it is locked, so that
-- nothing of it is older than the token; and how many claims its cloud has had, its own included. Of its plan's graph
-- only the segments, whose members its visits decide, and no reasons for its nodes: those are most of a plan, and no
-- visit needs them.
taken AS (
    UPDATE pod SET worker = %(worker)s, token = token + 1, held_until = now() + %(hold)s * interval '1 second',
        late_until = CASE WHEN held_until IS NULL THEN late_until
            ELSE greatest(late_until, held_until + %(late)s * interval '1 second') END
    WHERE id IN (SELECT id FROM due WHERE kind = 'pod') RETURNING
        @pod_fields, plan || jsonb_build_object('placement', plan -> 'placement' || '{"explanation": {"considered": 0}}',
            'graph', jsonb_build_object('resources', jsonb_path_query_array(plan,
                '$.graph.resources[*] ? (@.spec.kind == "segment" || @.spec.kind == "partition")'))) AS plan
), other AS (
    UPDATE ONLY owner SET worker = %(worker)s, token = token + 1, held_until = now() + %(hold)s * interval '1 second',
        late_until = CASE WHEN held_until IS NULL THEN late_until
            ELSE greatest(late_until, held_until + %(late)s * interval '1 second') END
    WHERE id IN (SELECT id FROM due WHERE kind <> 'pod')
)
SELECT taken.*, due.id, due.kind, (SELECT max(generation) FROM site) AS site_generation,
    (SELECT max(accepted_at) FROM epoch) AS accepted_at, e.number +
        @ends AS number
FROM due LEFT JOIN taken ON taken.id = due.id LEFT JOIN epoch e ON e.cloud = taken.plan ->> 'cloud' ORDER BY due.wanted = 'absent' DESC, due.next_at

-- name: claim_work
-- Owners with more to do than an observation of what is READY, so many of each sort: releases first, since they free
-- capacity and each of their steps would wait behind everything that boots; then those that have waited longest.
WITH releases AS (
    SELECT id, kind, wanted, next_at FROM owner
    WHERE state <> 'RELEASED' AND wanted = 'absent'
      AND site IS NOT NULL AND next_at <= now() AND (held_until IS NULL OR held_until < now())
    ORDER BY next_at FOR UPDATE SKIP LOCKED LIMIT %(releases)s
), others AS (
    SELECT id, kind, wanted, next_at FROM owner
    WHERE state <> 'RELEASED' AND wanted = 'present' AND (state <> 'READY' OR repair OR changed_at IS NOT NULL)
      AND site IS NOT NULL AND next_at <= now() AND (held_until IS NULL OR held_until < now())
    ORDER BY next_at FOR UPDATE SKIP LOCKED LIMIT %(most)s
), due AS (
    SELECT * FROM releases UNION ALL SELECT * FROM others
),
@claimed;

-- name: claim_ready
-- Those of the others that have waited longest.
WITH due AS (
    SELECT id, kind, wanted, next_at FROM owner
    WHERE state = 'READY' AND wanted = 'present' AND NOT repair AND changed_at IS NULL
      AND site IS NOT NULL AND next_at <= now() AND (held_until IS NULL OR held_until < now())
    ORDER BY next_at FOR UPDATE SKIP LOCKED LIMIT %(most)s
),
@claimed;

-- name: next_owner_at
-- Seconds until the next unheld owner of each sort is due, to know how long to sleep.
SELECT (
    SELECT extract(epoch FROM next_at - now())::float8 FROM owner
    WHERE state <> 'RELEASED' AND wanted = 'absent'
      AND site IS NOT NULL AND (held_until IS NULL OR held_until < now()) ORDER BY next_at LIMIT 1
) AS releases, (
    SELECT extract(epoch FROM next_at - now())::float8 FROM owner
    WHERE state <> 'RELEASED' AND wanted = 'present' AND (state <> 'READY' OR repair OR changed_at IS NOT NULL)
      AND site IS NOT NULL AND (held_until IS NULL OR held_until < now()) ORDER BY next_at LIMIT 1
) AS work, (
    SELECT extract(epoch FROM next_at - now())::float8 FROM owner
    WHERE state = 'READY' AND wanted = 'present' AND NOT repair AND changed_at IS NULL
      AND site IS NOT NULL AND (held_until IS NULL OR held_until < now()) ORDER BY next_at LIMIT 1
) AS looks;

-- name: extend_holds
-- Heartbeats for owners (`owners`: id, token). No row: the worker doesn't hold it any more; not `extended`: the row is
-- locked, and this statement doesn't wait while others' holds run out.
WITH mine AS MATERIALIZED (
    SELECT o.id, o.wanted, o.token FROM owner o JOIN jsonb_to_recordset(%(owners)s) AS s (id uuid, token bigint) ON s.id = o.id
    WHERE o.token = s.token AND o.held_until > now()
), it AS MATERIALIZED (
    SELECT o.id FROM owner o JOIN mine ON mine.id = o.id
    WHERE o.token = mine.token AND o.held_until > now() FOR UPDATE OF o SKIP LOCKED
), extended AS (
    UPDATE owner o SET held_until = now() + %(hold)s * interval '1 second' FROM it WHERE o.id = it.id
)
SELECT mine.id, mine.wanted, it.id IS NOT NULL AS extended FROM mine LEFT JOIN it ON it.id = mine.id;

-- name: is_held
-- Asked right before each call that changes something outside: no lock, since the call can't be part of a transaction.
SELECT generation, retries FROM owner WHERE id = %(id)s AND token = %(token)s AND held_until > now();

-- name: are_held
-- The same for several owners (`owners`: id, token): returns those that are held.
SELECT o.id, o.generation, o.retries FROM owner o
JOIN jsonb_to_recordset(%(owners)s) AS s (id uuid, token bigint) ON s.id = o.id
WHERE o.token = s.token AND o.held_until > now();

-- name: late_for
-- Including what a tenant has asked of its servers, if no answer is known.
SELECT extract(epoch FROM greatest(late_until, acts_until) - now())::float8 AS seconds,
    greatest(late_until, acts_until) AS late_until
FROM owner WHERE id = %(id)s AND greatest(late_until, acts_until) IS NOT NULL;

-- name: check_token
-- The fence, in the same transaction as the write it guards.
SELECT wanted, generation, retries, coalesce(%(at)s::timestamptz, clock_timestamp()) AS at
FROM owner WHERE id = %(id)s AND token = %(token)s AND held_until > now() FOR UPDATE;

-- part: fenced
-- The fence of a write by a worker, in the statement itself: no row, and nothing written, if another worker holds the
-- owner or it has another generation, or was retried.
held AS MATERIALIZED (
    SELECT id, wanted FROM owner
    WHERE id = %(id)s AND token = %(token)s AND generation = %(generation)s
        AND retries = %(retries)s AND held_until > now() FOR UPDATE
), it AS MATERIALIZED (
    SELECT held.*, coalesce(%(at)s::timestamptz, clock_timestamp()) AS at FROM held
)

-- part: written_events
-- The events of such a write. Followers are notified after it, by another statement.
written_events AS (
    INSERT INTO event (owner_id, at, type, message, key)
    SELECT it.id, it.at, e.type, e.message, e.key FROM it, ROWS FROM (
        jsonb_to_recordset(%(events)s) AS (type text, message jsonb, key text)) WITH ORDINALITY AS e (type, message, key, n)
    ORDER BY e.n
)

-- part: conditions
-- A condition without a time begins now.
(SELECT coalesce(jsonb_agg(CASE WHEN c.one ->> 'since' IS NULL
        THEN c.one || jsonb_build_object('since', it.at) ELSE c.one END ORDER BY c.n), '[]')
    FROM jsonb_array_elements(%(conditions)s) WITH ORDINALITY AS c (one, n))

-- name: write_held
-- What a visit has noted: resources; the owner's phase and conditions with their summary (`phase` empty: unchanged);
-- that everything is as the newest generation wants it (`done`); why adapters of a pod's nodes are out of its segment
-- (`watched`; an empty reason: they are in), and the segment, if that changed it (then it is wanted differently: what
-- was settled is observed again); events; and that the worker hands it back, due after `delay` seconds (negative: it
-- doesn't), or at once if the owner was woken meanwhile. Lands: a request with an unknown or unwritten outcome may take
-- effect for so many seconds more, and the next worker looks for everything (null: there is none).
WITH
@fenced, changed AS (
    UPDATE resource r SET state = c.state, outside_id = coalesce(c.outside_id, r.outside_id), reason = c.reason,
        differences = c.differences, former = coalesce(c.former, r.former),
        facts = CASE WHEN c.facts <> '{}' OR c.outside_id <> r.outside_id THEN c.facts ELSE r.facts END,
        attempts = c.attempts, asked = c.asked,
        since = CASE WHEN r.state = c.state THEN coalesce(r.since, it.at) ELSE it.at END,
        started_at = coalesce(r.started_at, it.at),
        finished_at = CASE WHEN c.state IN ('settled', 'absent') THEN it.at END
    FROM it, jsonb_to_recordset(%(changes)s) AS c (key text, state text, outside_id text, reason jsonb,
        differences jsonb, facts jsonb, attempts integer, asked boolean, former jsonb)
    WHERE r.owner_id = it.id AND r.key = c.key
), owned AS (
    UPDATE owner p SET phase = CASE WHEN %(phase)s = '' THEN p.phase ELSE %(phase)s END,
        state = CASE WHEN %(phase)s = '' THEN p.state ELSE %(state)s END,
        reason = CASE WHEN %(phase)s = '' THEN p.reason ELSE %(reason)s END,
        conditions = CASE WHEN %(phase)s = '' THEN p.conditions ELSE
            @conditions
            END,
        since = CASE WHEN %(moved)s THEN it.at ELSE p.since END,
        alarmed = p.alarmed AND NOT %(moved)s AND NOT %(done)s AND (%(delay)s < 0 OR p.parked IS NULL),
        late_until = greatest(p.late_until, now() + %(lands)s::float8 * interval '1 second'),
        watched_at = CASE WHEN %(watched)s THEN it.at ELSE p.watched_at END,
        ready_generation = CASE WHEN %(done)s THEN p.generation ELSE p.ready_generation END,
        ready_at = CASE WHEN %(done)s THEN it.at ELSE p.ready_at END,
        changed_at = CASE WHEN NOT %(done)s THEN p.changed_at END,
        worker = CASE WHEN %(delay)s < 0 THEN p.worker END,
        held_until = CASE WHEN %(delay)s < 0 THEN p.held_until END,
        parked = CASE WHEN %(delay)s < 0 THEN p.parked END,
        failures = CASE WHEN %(delay)s < 0 THEN p.failures ELSE %(failures)s END,
        next_at = CASE WHEN %(delay)s < 0 THEN p.next_at WHEN p.woken > %(woken)s THEN now()
            ELSE now() + %(delay)s * interval '1 second' END
    FROM it WHERE p.id = it.id AND (%(phase)s <> '' OR %(watched)s OR %(done)s OR %(lands)s::float8 IS NOT NULL OR %(delay)s >= 0)
), withheld AS (
    UPDATE node_hold h SET withheld = n.reason
    FROM it, jsonb_to_recordset(%(nodes)s) AS n (node text, reason text)
    WHERE h.pod_id = it.id AND h.node = n.node AND h.withheld <> n.reason RETURNING h.node, h.withheld
), rewritten AS (
    UPDATE resource r SET document = %(document)s, since = CASE r.state WHEN 'settled' THEN it.at ELSE r.since END,
        state = CASE r.state WHEN 'settled' THEN 'pending' ELSE r.state END
    FROM it WHERE r.owner_id = it.id AND r.key = %(key)s
),
@written_events
SELECT wanted, at, ARRAY(SELECT node FROM withheld WHERE withheld <> '') AS withheld FROM it;

-- name: release_held
-- The end of an owner: its receipt, its capacity except the numbers in `kept` (as `space number`), and its state; and
-- the worker hands it back. Virtual functions are freed with their nodes, as in give_back_node.
WITH
@fenced, signed AS (
    INSERT INTO receipt (owner_id, document, at) SELECT it.id, %(receipt)s, it.at FROM it
), functions AS MATERIALIZED (
    SELECT FROM function_hold f JOIN it ON it.id = f.pod_id ORDER BY f.node, f.function FOR UPDATE OF f
), nodes AS (
    DELETE FROM node_hold h USING it WHERE h.pod_id = it.id AND (SELECT count(*) FROM functions) >= 0
), numbers AS (
    DELETE FROM number_hold h USING it
    WHERE h.owner_id = it.id AND h.space || ' ' || h.number <> ALL(%(kept)s)
), subnets AS (
    DELETE FROM subnet_hold h USING it WHERE h.owner_id = it.id
), waiting AS (
    UPDATE queue q SET next_at = least(q.next_at, it.at) FROM it
), changed AS (
    UPDATE owner p SET phase = %(phase)s, state = %(state)s, reason = %(reason)s, since = it.at, released_at = it.at,
        alarmed = false, worker = NULL, held_until = NULL, failures = 0, parked = NULL,
        conditions =
            @conditions
    FROM it WHERE p.id = it.id
),
@written_events
SELECT wanted, at FROM it;

-- name: hand_back_unchanged
-- Hands back unchanged owners that were observed (`nodes`: those whose adapters may be in their segments), as
-- write_held does. No row: another worker holds it, or it has another generation; not `gone`: its row is locked, and it
-- is handed back with the next ones.
WITH mine AS MATERIALIZED (
    SELECT s.* FROM owner o JOIN jsonb_to_recordset(%(owners)s)
        AS s (id uuid, token bigint, generation integer, woken bigint, delay float8) ON s.id = o.id
    WHERE o.token = s.token AND o.generation = s.generation AND o.held_until > now()
), held AS MATERIALIZED (
    SELECT o.id, mine.woken, mine.delay FROM owner o JOIN mine ON mine.id = o.id
    WHERE o.token = mine.token AND o.generation = mine.generation AND o.held_until > now() FOR UPDATE OF o SKIP LOCKED
), gone AS (
    UPDATE owner p SET watched_at = coalesce(%(at)s::timestamptz, clock_timestamp()), worker = NULL, held_until = NULL,
        alarmed = p.alarmed AND p.parked IS NULL, parked = NULL, failures = 0,
        next_at = CASE WHEN p.woken > held.woken THEN now() ELSE now() + held.delay * interval '1 second' END
    FROM held WHERE p.id = held.id
), fine AS (
    UPDATE node_hold h SET withheld = ''
    FROM held, jsonb_to_recordset(%(nodes)s) AS n (id uuid, node text)
    WHERE n.id = held.id AND h.pod_id = n.id AND h.node = n.node AND h.withheld <> ''
)
SELECT mine.id, held.id IS NOT NULL AS gone FROM mine LEFT JOIN held ON held.id = mine.id;

-- name: hand_back_owner
-- Hands an owner back: due after a delay (none: since when it was due), or at once if it was woken meanwhile; lands: as
-- in write_held.
UPDATE owner SET worker = NULL, held_until = NULL, failures = %(failures)s,
    alarmed = alarmed AND parked IS NULL, parked = NULL,
    late_until = greatest(late_until, now() + %(lands)s::float8 * interval '1 second'),
    next_at = CASE WHEN woken > %(woken)s THEN now() ELSE coalesce(now() + %(delay)s * interval '1 second', next_at) END
WHERE id = %(id)s AND token = %(token)s;

-- name: set_owner
-- Phase and conditions, and their summary: state, its reason, and since when.
UPDATE owner SET phase = %(phase)s, conditions = %(conditions)s, state = %(state)s, reason = %(reason)s,
    since = CASE WHEN state = %(state)s THEN since ELSE %(at)s END,
    alarmed = alarmed AND state = %(state)s
WHERE id = %(id)s;

-- name: set_alarmed
-- Once per state.
UPDATE owner SET alarmed = true WHERE id = %(id)s AND NOT alarmed;

-- name: insert_event
-- Writers of an owner's events hold its row lock until they commit: a follower asks for events after the last one, and
-- would miss one that commits after a later one.
WITH it AS MATERIALIZED (SELECT id FROM owner WHERE id = %(owner_id)s FOR UPDATE)
INSERT INTO event (owner_id, at, type, message, key)
SELECT id, %(at)s, %(type)s, %(message)s, %(key)s FROM it;

-- name: lock_present
SELECT id FROM owner WHERE id = %(id)s AND wanted = 'present' FOR UPDATE;

-- name: begin_act
-- With the owner's row locked. A server that isn't wanted any more is asked for nothing. Each request has a time of its
-- own: an answered one takes back its own.
WITH it AS MATERIALIZED (SELECT id, acts_until FROM owner WHERE id = %(id)s)
UPDATE owner o SET acts_until = greatest(clock_timestamp() + %(late)s * interval '1 second',
    it.acts_until + interval '1 microsecond')
FROM it WHERE o.id = it.id
    AND EXISTS (SELECT FROM resource r WHERE r.owner_id = o.id AND r.key = %(key)s AND r.expunged IS NULL)
RETURNING it.acts_until AS before, o.acts_until AS until;

-- name: end_act
UPDATE owner SET acts_until = %(before)s WHERE id = %(id)s AND acts_until = %(until)s;

-- name: events_of
SELECT sequence, at, type, message, key FROM event
WHERE owner_id = %(owner_id)s AND sequence > %(after)s ORDER BY sequence LIMIT %(limit)s;

-- name: newest_events_of
SELECT * FROM (
    SELECT sequence, at, type, message, key FROM event
    WHERE owner_id = %(owner_id)s AND sequence > %(after)s ORDER BY sequence DESC LIMIT %(limit)s
) newest ORDER BY sequence;

-- name: insert_webhook
-- Nothing if the project has as many as it may, or one of this name.
INSERT INTO webhook (id, project_id, name, url, events, created_by, mark, life, xact, sequence)
SELECT %(id)s, %(project_id)s, %(name)s, %(url)s, %(events)s, %(created_by)s, %(mark)s, %(life)s, %(xact)s::xid8, %(sequence)s
WHERE (SELECT count(*) FROM webhook WHERE project_id = %(project_id)s) < %(most)s
ON CONFLICT (project_id, name) DO NOTHING RETURNING *;

-- name: count_webhooks
-- By state, as `weft webhook list` shows it.
SELECT count(*) FILTER (WHERE disabled_at IS NOT NULL) AS disabled,
    count(*) FILTER (WHERE disabled_at IS NULL AND failing_since IS NOT NULL) AS failing,
    count(*) FILTER (WHERE disabled_at IS NULL AND failing_since IS NULL) AS active FROM webhook;

-- name: lock_webhooks
-- Of two that make one at once, the second counts the first one's.
SELECT pg_advisory_xact_lock(hashtextextended('webhooks/' || %(project_id)s, 0));

-- name: webhooks
SELECT * FROM webhook WHERE %(project_id)s::text IS NULL OR project_id = %(project_id)s ORDER BY project_id, name LIMIT 10000;

-- name: webhook
SELECT * FROM webhook WHERE project_id = %(project_id)s AND (name = %(name)s OR id::text = %(name)s);

-- name: webhook_by_id
SELECT * FROM webhook WHERE id::text = %(id)s;

-- name: delete_webhook
DELETE FROM webhook WHERE id = %(id)s;

-- name: delete_webhook_secrets
DELETE FROM secret WHERE name LIKE 'webhook/' || %(id)s::text || '/%%';

-- name: begin_webhook_test
UPDATE webhook SET tested_at = now() WHERE id = %(id)s
    AND NOT EXISTS (SELECT FROM webhook o WHERE o.project_id = %(project_id)s AND o.tested_at > now() - %(pause)s)
RETURNING id;

-- name: delete_old_webhook_secrets
DELETE FROM secret WHERE name LIKE 'webhook/' || %(id)s::text || '/%%'
    AND split_part(name, '/', 3)::integer < %(number)s;

-- name: rotate_webhook
UPDATE webhook SET secret_number = %(number)s, old_until = now() + %(valid)s
WHERE id = %(id)s AND secret_number = %(number)s - 1 RETURNING *;

-- name: enable_webhook
-- It goes on after the last event that was sent.
UPDATE webhook SET disabled_at = NULL, reason = '""', failures = 0, failing_since = NULL, next_at = now()
WHERE id = %(id)s RETURNING *;

-- name: claim_webhooks
-- Those that are due and have something to send, or a position of another life; of a project no more than `share` at once.
WITH due AS (
    SELECT w.id, w.next_at, row_number() OVER (PARTITION BY w.project_id ORDER BY w.next_at, w.id)
        + (SELECT count(*) FROM webhook o WHERE o.project_id = w.project_id AND o.held_until > now()) AS place
    FROM webhook w
    WHERE w.disabled_at IS NULL AND w.next_at <= now() AND (w.held_until IS NULL OR w.held_until <= now())
        AND (w.mark <> (SELECT mark FROM event_life) OR EXISTS (SELECT FROM event WHERE project_id = w.project_id
            AND (life, xact, sequence) > (w.life, w.xact, w.sequence) AND
            @delivered
        ))
), mine AS (
    SELECT w.id FROM webhook w JOIN due ON due.id = w.id
    WHERE due.place <= %(share)s AND (w.held_until IS NULL OR w.held_until <= now())
    ORDER BY w.next_at LIMIT %(limit)s FOR UPDATE OF w SKIP LOCKED
)
UPDATE webhook w SET token = token + 1, held_until = now() + %(hold)s FROM mine WHERE w.id = mine.id RETURNING w.*;

-- name: advance_webhook
-- Nothing if another worker has it by now, or it was disabled or deleted. `sent`: events that were delivered.
UPDATE webhook SET mark = %(mark)s, life = %(life)s, xact = %(xact)s::xid8, sequence = %(sequence)s,
    held_until = now() + %(hold)s, delivered = delivered + %(sent)s,
    delivered_at = CASE WHEN %(sent)s > 0 THEN now() ELSE delivered_at END,
    failures = CASE WHEN %(sent)s > 0 THEN 0 ELSE failures END,
    failing_since = CASE WHEN %(sent)s > 0 THEN NULL ELSE failing_since END,
    reason = CASE WHEN %(sent)s > 0 THEN '""' ELSE reason END
WHERE id = %(id)s AND token = %(token)s AND disabled_at IS NULL RETURNING id;

-- name: release_webhook
UPDATE webhook SET held_until = NULL, next_at = now() WHERE id = %(id)s AND token = %(token)s;

-- name: fail_webhook
-- An attempt failed: it is due again after `delay`; `disable`: not before someone enables it.
UPDATE webhook SET held_until = NULL, failures = failures + 1, failing_since = coalesce(failing_since, now()),
    reason = %(reason)s, next_at = now() + %(delay)s,
    disabled_at = CASE WHEN %(disable)s THEN now() END
WHERE id = %(id)s AND token = %(token)s RETURNING failing_since, now() AS at;

-- name: use_of_period
-- Seconds of each hold in a period, of a project or of all; what goes on counts until its end.
SELECT project_id, pod_id, pod, node, devices, spare, type, accelerators,
    sum(extract(epoch FROM least(coalesce(until, %(until)s), %(until)s) - greatest(since, %(since)s)))::float8 AS seconds
FROM use_span
WHERE since < %(until)s AND (until IS NULL OR until > %(since)s) AND (%(project)s::text IS NULL OR project_id = %(project)s)
GROUP BY project_id, pod_id, pod, node, devices, spare, type, accelerators LIMIT %(limit)s;

-- name: split_use
-- What goes on at nodes whose accelerators change counts with the old ones until now, and with others from now on.
WITH ended AS (
    UPDATE use_span u SET until = greatest(u.since, now()), type = g.type, accelerators = g.accelerators
    FROM unnest(%(nodes)s::text[], %(types)s::text[], %(counts)s::integer[]) g (node, type, accelerators)
    WHERE u.node = g.node AND u.until IS NULL RETURNING u.*
)
INSERT INTO use_span (node, pod_id, pod, project_id, server, devices, spare, since)
SELECT node, pod_id, pod, project_id, server, devices, spare, until FROM ended ORDER BY node, pod_id;

-- name: describe_use
-- What has ended at such nodes keeps the accelerators that they had.
UPDATE use_span u SET type = g.type, accelerators = g.accelerators
FROM unnest(%(nodes)s::text[], %(types)s::text[], %(counts)s::integer[]) g (node, type, accelerators)
WHERE u.node = g.node AND u.type IS NULL AND u.until IS NOT NULL;

-- name: prune_use
DELETE FROM use_span WHERE id IN (SELECT id FROM use_span WHERE until < %(before)s ORDER BY until LIMIT %(limit)s);

-- name: parts_seen
-- Parts of a node: those that were there before are seen again, others begin a stay.
WITH given AS (
    SELECT * FROM jsonb_to_recordset(%(parts)s) AS g (kind text, serial text, place text, model text)
), last AS (
    SELECT DISTINCT ON (g.kind, g.serial) g.kind, g.serial, s.since, s.node = %(node)s::text AND s.place = g.place AS here
    FROM given g JOIN part_stay s USING (kind, serial) ORDER BY g.kind, g.serial, s.since DESC
), again AS (
    UPDATE part_stay s SET seen_at = %(at)s FROM last l
    WHERE (s.serial, s.kind, s.since) = (l.serial, l.kind, l.since) AND l.here
)
INSERT INTO part_stay (kind, serial, since, node, place, model, seen_at)
SELECT kind, serial, %(at)s, %(node)s, place, model, %(at)s FROM given g
WHERE NOT EXISTS (SELECT FROM last l WHERE (l.kind, l.serial) = (g.kind, g.serial) AND l.here)
ON CONFLICT DO NOTHING;

-- name: insert_part_failure
INSERT INTO part_failure (kind, serial, at, node, place, code, reason)
VALUES (%(kind)s, %(serial)s, %(at)s, %(node)s, %(place)s, %(code)s, %(reason)s);

-- name: stays_of_part
SELECT kind, model, node, place, since, seen_at FROM part_stay WHERE serial = %(serial)s ORDER BY since DESC LIMIT %(limit)s;

-- name: failures_of_part
SELECT at, node, place, code AS "check", reason FROM part_failure WHERE serial = %(serial)s ORDER BY id DESC LIMIT %(limit)s;

-- name: prune_part_failures
DELETE FROM part_failure WHERE id IN (SELECT id FROM part_failure WHERE at < %(before)s ORDER BY at LIMIT %(limit)s);

-- name: prune_part_stays
DELETE FROM part_stay WHERE (serial, kind, since) IN (
    SELECT serial, kind, since FROM part_stay WHERE seen_at < %(before)s ORDER BY seen_at LIMIT %(limit)s);

-- part: stream_fields
e.life, e.xact::text AS xact, e.sequence, e.at, e.type, e.message, e.key, e.owner_id, e.project_id, p.name AS pod

-- part: delivered
-- Below it no transaction is in progress: nothing can appear before what was read. Rows of earlier lives are all there.
(life < (SELECT number FROM event_life) OR xact < pg_snapshot_xmin(pg_current_snapshot()))

-- part: event_place
-- Where transactions get their numbers: the server, its timeline, and the database, which a restore makes again.
(SELECT concat_ws('/', system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8),
    (SELECT oid FROM pg_database WHERE datname = current_database())) FROM pg_control_system())

-- name: event_life
SELECT number, mark, place =
    @event_place
    AS here, place = '' AS fresh FROM event_life;

-- name: hold_events
-- Every writer before this one has committed when this has the lock, and later ones see the new life.
LOCK TABLE event IN SHARE MODE;

-- name: begin_event_life
UPDATE event_life SET number = number + CASE place WHEN '' THEN 0 ELSE 1 END, since = now(),
    mark = substr(md5(gen_random_uuid()::text), 1, 8), place =
    @event_place
WHERE place <>
    @event_place;

-- name: stream_of_project
-- Events of a project's pods after a position, in the order in which they are delivered.
SELECT
    @stream_fields
FROM (
    SELECT * FROM event WHERE project_id = %(project)s
        AND (life, xact, sequence) > (%(life)s, %(xact)s::xid8, %(sequence)s) AND
        @delivered
    ORDER BY life, xact, sequence LIMIT %(limit)s
) e LEFT JOIN pod p ON p.id = e.owner_id ORDER BY e.life, e.xact, e.sequence;

-- name: stream_of_all
-- The same of all projects.
SELECT
    @stream_fields
FROM (
    SELECT * FROM event WHERE project_id IS NOT NULL
        AND (life, xact, sequence) > (%(life)s, %(xact)s::xid8, %(sequence)s) AND
        @delivered
    ORDER BY life, xact, sequence LIMIT %(limit)s
) e LEFT JOIN pod p ON p.id = e.owner_id ORDER BY e.life, e.xact, e.sequence;

-- name: removed_after
-- The last event after a position that was removed before its readers were there; of a project, or of all. No row: none.
SELECT life, xact::text AS xact, sequence FROM event_removed
WHERE (%(project)s::text IS NULL OR project_id = %(project)s)
    AND (life, xact, sequence) > (%(life)s, %(xact)s::xid8, %(sequence)s)
ORDER BY life DESC, xact DESC, sequence DESC LIMIT 1;

-- name: newest_of_project
-- The last events of a project's pods.
SELECT
    @stream_fields
FROM (
    SELECT * FROM event WHERE project_id = %(project)s AND
        @delivered
    ORDER BY life DESC, xact DESC, sequence DESC LIMIT %(limit)s
) e LEFT JOIN pod p ON p.id = e.owner_id ORDER BY e.life, e.xact, e.sequence;

-- name: newest_of_all
-- The same of all projects.
SELECT
    @stream_fields
FROM (
    SELECT * FROM event WHERE project_id IS NOT NULL AND
        @delivered
    ORDER BY life DESC, xact DESC, sequence DESC LIMIT %(limit)s
) e LEFT JOIN pod p ON p.id = e.owner_id ORDER BY e.life, e.xact, e.sequence;

-- name: news_of_streams
-- Which of these streams have events after their positions, or a position of another life; and whether there are events
-- that can't be delivered yet.
SELECT ARRAY(
    SELECT w.number FROM unnest(%(projects)s::text[], %(marks)s::text[], %(lives)s::int[], %(xacts)s::text[],
        %(sequences)s::bigint[]) WITH ORDINALITY AS w (project, mark, life, xact, sequence, number)
    WHERE w.mark <> (SELECT mark FROM event_life)
        OR w.project IS NULL AND EXISTS (SELECT FROM event WHERE project_id IS NOT NULL
            AND (life, xact, sequence) > (w.life, w.xact::xid8, w.sequence) AND
            @delivered
        )
        OR EXISTS (SELECT FROM event WHERE project_id = w.project
            AND (life, xact, sequence) > (w.life, w.xact::xid8, w.sequence) AND
            @delivered
        )
    ) AS news,
    EXISTS (SELECT FROM event WHERE project_id IS NOT NULL AND life = (SELECT number FROM event_life)
        AND xact >= pg_snapshot_xmin(pg_current_snapshot())) AS pending;

-- name: insert_audit_log
-- With `counted`, a similar entry within the hour is counted in the existing row, which describes the last one.
INSERT INTO audit_log (at, last_at, user_id, user_name, user_domain_id, project_id, project_domain_id, action, subject,
    address, user_agent, request_id, outcome, refused_in)
VALUES (now(), now(), %(user_id)s, %(user_name)s, %(user_domain_id)s, %(project_id)s, %(project_domain_id)s, %(action)s,
    %(subject)s, %(address)s, %(user_agent)s, %(request_id)s, %(outcome)s,
    CASE WHEN %(counted)s THEN date_trunc('hour', now()) END)
ON CONFLICT (user_id, coalesce(project_id, ''), action, refused_in) WHERE refused_in IS NOT NULL DO UPDATE
SET times = audit_log.times + 1, last_at = excluded.last_at, subject = excluded.subject, address = excluded.address,
    user_agent = excluded.user_agent, request_id = excluded.request_id, outcome = excluded.outcome;

-- name: hold_audit_log
-- Every writer before this one has committed when this has the lock.
LOCK TABLE audit_log IN SHARE MODE;

-- name: last_in_audit_log
SELECT coalesce(max(sequence), 0) AS last FROM audit_log;

-- name: audit_log
-- The newest first; none after `last`: before it no new ones can appear.
SELECT sequence, at, last_at, times, user_id, user_name AS "user", user_domain_id, project_id, project_domain_id, action,
    subject, address, user_agent, request_id, outcome
FROM audit_log
WHERE sequence > %(after)s AND sequence <= %(last)s AND sequence < coalesce(%(before)s, sequence + 1)
  AND (%(since)s::timestamptz IS NULL OR last_at >= %(since)s)
  AND (%(user)s::text IS NULL OR %(user)s IN (user_id, user_name))
  AND (%(project)s::text IS NULL OR %(project)s = project_id)
  AND (%(action)s::text IS NULL OR %(action)s = action)
ORDER BY sequence DESC LIMIT %(limit)s;

-- name: receipt_of
SELECT document FROM receipt WHERE owner_id = %(owner_id)s;

-- name: secret
SELECT value, sealed FROM secret WHERE name = %(name)s;

-- name: insert_secret
-- Of two first starts at once one wins, and both read the winner's.
INSERT INTO secret (name, value, sealed) VALUES (%(name)s, %(value)s, %(sealed)s) ON CONFLICT (name) DO NOTHING;

-- name: secrets
SELECT name, value, sealed FROM secret ORDER BY name;

-- name: notify
-- Notifies followers of an event of a pod. Workers are woken by triggers of what makes work due.
SELECT pg_notify('weft_event', %(owner_id)s);

-- name: send_notifications
-- Notifies of what other transactions have written (channel, payload). It needn't be on disk: it only wakes.
SELECT set_config('synchronous_commit', 'off', true), pg_notify(n.one ->> 0, n.one ->> 1)
FROM jsonb_array_elements(%(notifications)s) AS n (one);

-- name: segments_wanted
-- Segments of a fabric that were created for live pods and whose removal wasn't requested; as text, the key of a cache:
-- nearly all of them were read before.
SELECT r.owner_id::text, r.key, r.document::text, p.site, p.kind AS owner_kind
FROM resource r JOIN owner p ON p.id = r.owner_id
WHERE r.kind = 'segment' AND r.document ->> 'where' = %(fabric)s AND r.outside_id IS NOT NULL
  AND r.state = ANY(%(states)s) AND p.wanted = 'present' AND p.state <> 'RELEASED';

-- name: link_users
-- What has segments on a fabric, with the segment's document as text, the key of a cache.
SELECT r.owner_id::text AS id, p.kind, p.name, p.project_id, r.document::text
FROM resource r JOIN owner p ON p.id = r.owner_id
WHERE r.kind = 'segment' AND r.document ->> 'where' = %(fabric)s AND r.outside_id IS NOT NULL
  AND r.state <> 'ABSENT' AND p.state <> 'RELEASED'
ORDER BY r.owner_id, r.key;

-- name: segment_ever
-- A pod's plan, and the ports in the segment of a key of nodes that it is giving back.
SELECT p.plan, ARRAY(SELECT h.leaving_ports -> %(key)s FROM node_hold h
    WHERE h.pod_id = p.id AND h.leaving_ports ? %(key)s) AS leaving
FROM pod p WHERE p.id = %(id)s AND p.plan IS NOT NULL;

-- name: insert_segment_event
-- An event of a pod's segment that was found outside of the pod's own visits.
WITH it AS MATERIALIZED (SELECT id FROM owner WHERE id = %(owner_id)s FOR UPDATE)
INSERT INTO event (owner_id, at, type, message, key)
SELECT id, now(), 'repair', %(message)s, (SELECT key FROM resource WHERE owner_id = it.id AND kind = 'segment' LIMIT 1) FROM it;

-- name: hold_stale_number
INSERT INTO stale_number (fabric, manager, number, owner_id, reason, since)
VALUES (%(fabric)s, %(manager)s, %(number)s, %(owner_id)s, %(reason)s, now())
ON CONFLICT (fabric, manager, number) DO UPDATE SET owner_id = excluded.owner_id, reason = excluded.reason;

-- name: stale_numbers
SELECT fabric, manager, number, owner_id, reason, since FROM stale_number WHERE fabric = %(fabric)s ORDER BY since;

-- name: give_back_stale_numbers
-- A manager was read without them, or no longer belongs to the fabric.
DELETE FROM stale_number WHERE fabric = %(fabric)s AND manager = %(manager)s AND number <> ALL(%(there)s)
RETURNING number, owner_id;

-- name: segments_of
-- Segments of these owners; over: seen gone after the release was requested, which never changes again.
SELECT r.owner_id, r.key, p.kind AS owner_kind, p.wanted = 'absent' AND (p.state = 'RELEASED' OR r.state = 'absent') AS over
FROM resource r JOIN owner p ON p.id = r.owner_id WHERE r.kind = 'segment' AND p.id = ANY(%(owners)s);

-- name: owners_of
-- Resource rows with one of these ids, and all rows of these owners.
SELECT r.owner_id, r.key, r.kind, r.state, r.outside_id, r.document ->> 'where' AS place,
    coalesce(r.document ->> 'owner', 'tenant') AS owner, r.document ->> 'name' AS called, r.started_at, r.finished_at, r.former,
    CASE WHEN r.kind = 'segment' THEN r.document #> '{spec,members}' END AS members, o.kind AS owner_kind, o.name, o.project_id, o.state AS owner_state, o.released_at, o.late_until
FROM resource r JOIN owner o ON o.id = r.owner_id
WHERE r.outside_id = ANY(%(ids)s) OR r.owner_id = ANY(%(owners)s);

-- name: known_owners
-- Which of these owners the database knows.
SELECT id, kind, name, project_id, state, released_at FROM owner WHERE id = ANY(%(owners)s);

-- name: claim_owner
-- One out of turn, if no worker holds it; the token grows as in claim_work.
UPDATE owner SET worker = %(worker)s, token = token + 1, held_until = now() + %(hold)s * interval '1 second',
    late_until = CASE WHEN held_until IS NULL THEN late_until
        ELSE greatest(late_until, held_until + %(late)s * interval '1 second') END
WHERE id = %(id)s AND state <> 'RELEASED' AND site IS NOT NULL AND (held_until IS NULL OR held_until < now())
RETURNING kind;

-- name: pods_released_since
-- Those that had something outside, the last released first; the next ones after one (`at`, `last`: time and id).
SELECT * FROM pod WHERE state = 'RELEASED' AND plan IS NOT NULL AND released_at >= %(since)s
    AND (released_at, id) < (%(at)s::timestamptz, %(last)s::uuid)
ORDER BY released_at DESC, id DESC LIMIT %(limit)s;

-- name: released_pods_with_numbers
-- Abandoned pods whose segment, VLAN or places have not been seen free since.
SELECT * FROM pod WHERE state = 'RELEASED' AND plan IS NOT NULL
    AND id IN (SELECT owner_id FROM number_hold) AND (released_at, id) > (%(at)s::timestamptz, %(last)s::uuid)
ORDER BY released_at, id LIMIT %(limit)s;

-- name: nodes_and_numbers_of
-- Nodes and, with node null, numbers that a pod holds.
SELECT h.node, q.node IS NOT NULL AS quarantined, NULL AS space, NULL::int AS number
FROM node_hold h LEFT JOIN quarantine q ON q.node = h.node WHERE h.pod_id = %(pod_id)s
UNION ALL
SELECT NULL, false, space, number FROM number_hold WHERE owner_id = %(pod_id)s;

-- name: numbers_of
SELECT space, number FROM number_hold WHERE owner_id = %(owner_id)s ORDER BY space, number;

-- name: give_back_number
DELETE FROM number_hold WHERE space = %(space)s AND number = %(number)s AND owner_id = %(owner_id)s;

-- name: take_sweep
-- One worker sweeps when it is due; if it dies, another does after the delay.
UPDATE sweep SET next_at = %(later)s WHERE next_at <= %(at)s RETURNING next_at;

-- name: end_sweep
UPDATE sweep SET next_at = %(next)s, ended_at = %(at)s, unread = %(unread)s;

-- name: sweep_turns
-- Project -> the last of its things that a round has removed, where one round doesn't remove all.
SELECT turns FROM sweep FOR UPDATE;

-- name: set_sweep_turns
UPDATE sweep SET turns = %(turns)s;

-- name: sweep
SELECT next_at, ended_at, unread FROM sweep;

-- name: set_swept
UPDATE owner SET swept_at = %(at)s WHERE id = %(id)s;

-- name: insert_trace
-- A row only if it is new: not known, or gone in between; `most`: and if the owner has fewer.
INSERT INTO trace (owner_id, kind, place, subject, what, others, found_at)
SELECT %(owner_id)s, %(kind)s, %(place)s, %(subject)s, %(what)s, %(others)s, %(at)s
WHERE %(most)s::bigint IS NULL OR (SELECT count(*) FROM trace WHERE owner_id = %(owner_id)s) < %(most)s::bigint
ON CONFLICT (owner_id, kind, place, subject) DO UPDATE SET what = excluded.what, found_at = excluded.found_at,
    gone_at = NULL WHERE trace.gone_at IS NOT NULL
RETURNING id;

-- name: end_trace
UPDATE trace SET gone_at = %(at)s WHERE id = %(id)s AND gone_at IS NULL;

-- name: traces
-- Those that still exist, and those found since.
SELECT t.id, t.owner_id, t.kind, t.place, t.subject, t.what, t.others, t.found_at, t.gone_at, p.name AS pod, p.kind AS owner_kind
FROM trace t JOIN owner p ON p.id = t.owner_id WHERE t.gone_at IS NULL OR t.found_at >= %(since)s
ORDER BY t.gone_at IS NOT NULL, t.id DESC LIMIT %(limit)s;

-- name: open_traces
-- The next page of those that still exist, after an id.
SELECT id, owner_id, kind, place, subject, what, others, found_at, gone_at FROM trace
WHERE gone_at IS NULL AND id > %(after)s ORDER BY id LIMIT %(limit)s;

-- name: traces_of
SELECT kind, place AS where, subject, what AS found, found_at, gone_at FROM trace
WHERE owner_id = %(owner_id)s AND NOT others ORDER BY id LIMIT 1000;

-- name: count_traces
SELECT count(*) FILTER (WHERE gone_at IS NULL) AS open, count(*) FILTER (WHERE gone_at IS NOT NULL) AS gone FROM trace;

-- name: abandon_owner
-- Only one whose release was requested and isn't finished. An operator may still request what weft has requested by
-- itself (`own`), which waits for an open gate. It is tried again from here on, whatever failed before.
UPDATE owner SET abandoned_by = %(by)s, abandoned_why = %(why)s, abandoned_at = %(at)s, abandoned_own = %(own)s,
    abandoned_worked = worked, woken = woken + 1, next_at = now(), failures = CASE WHEN %(own)s THEN failures ELSE 0 END
WHERE id = %(id)s AND wanted = 'absent' AND state = 'RELEASING' AND (abandoned_at IS NULL OR abandoned_own AND NOT %(own)s)
RETURNING id;

-- name: count_work
-- The time since the last visit to a release, or a change (`what`), counts as worked on, unless the gate was closed at
-- one of the two. Between two processes no more than `most` counts: perhaps nothing was worked on.
UPDATE owner SET worked = CASE WHEN split_part(worked_by, ' ', 1) <> %(what)s THEN 0 ELSE worked +
        CASE WHEN NOT %(on)s OR worked_at IS NULL THEN 0 ELSE greatest(0, least(extract(epoch FROM %(now)s - worked_at),
            CASE worked_by WHEN concat(%(what)s::text, ' ', %(by)s::text) THEN 'infinity' ELSE %(most)s END::float8)) END END,
    worked_at = CASE WHEN %(on)s THEN %(now)s::timestamptz END, worked_by = concat(%(what)s::text, ' ', %(by)s::text)
WHERE id = %(id)s AND token = %(token)s AND held_until > now() RETURNING worked;

-- name: quarantine_free
-- A node that no pod holds; no row if one does, or if it is quarantined already.
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

-- name: server
-- Which server answers; another one, or another run of it, may lack what the last one had.
SELECT pg_postmaster_start_time()::text AS started, inet_server_addr()::text AS address, inet_server_port() AS port;

-- part: ends
(SELECT coalesce(sum(number), 0)::bigint FROM epoch_end)

-- name: epochs
-- How many claims were made in each cloud, including all releases and quarantines.
SELECT cloud, number +
    @ends AS number
FROM epoch;

-- name: epoch_and_mark
-- The database's count in a cloud, and whether it knows the name of a note; one from a backup counts as if it didn't.
SELECT coalesce((SELECT e.number +
    @ends
FROM epoch e WHERE e.cloud = %(cloud)s), 0) AS number,
    EXISTS (SELECT FROM epoch_mark m WHERE m.cloud = %(cloud)s AND m.mark = %(mark)s)
        AND NOT EXISTS (SELECT FROM restored) AS known;

-- name: is_restored
SELECT FROM restored;

-- name: is_behind
-- Whether an operator must accept the database: it was filled by `weft restore`, or some cloud remembers more.
SELECT WHERE EXISTS (SELECT FROM restored) OR EXISTS (SELECT FROM epoch_behind);

-- name: restored_is_accepted
DELETE FROM restored;

-- name: new_mark
-- The name of the next note: every database with this row has everything committed before it. Names of notes before the
-- present one (`noted`) are over.
WITH old AS (
    DELETE FROM epoch_mark WHERE (cloud, mark) IN (
        SELECT cloud, mark FROM epoch_mark WHERE cloud = %(cloud)s AND number < %(noted)s FOR UPDATE SKIP LOCKED)
)
INSERT INTO epoch_mark (cloud, mark, number)
SELECT e.cloud, gen_random_uuid(), e.number +
    @ends
FROM epoch e WHERE e.cloud = %(cloud)s RETURNING mark, number;

-- name: count_end
-- As the triggers do.
INSERT INTO epoch_end (part, number) VALUES (mod(pg_backend_pid(), 16), 1)
ON CONFLICT (part) DO UPDATE SET number = epoch_end.number + 1 RETURNING part;

-- name: was_behind
SELECT FROM epoch_behind WHERE cloud = %(cloud)s;

-- name: found_behind
INSERT INTO epoch_behind (cloud) VALUES (%(cloud)s) ON CONFLICT DO NOTHING;

-- name: not_behind
DELETE FROM epoch_behind WHERE cloud = %(cloud)s;

-- name: touch_owners
-- All live owners that aren't held are due now.
UPDATE owner SET next_at = now() WHERE id IN (
    SELECT id FROM owner WHERE phase <> 'released' AND phase <> 'ordered' AND held_until IS NULL FOR UPDATE SKIP LOCKED);

-- name: accepted
SELECT max(accepted_at) AS at FROM epoch;

-- name: bump_epoch
-- Counts one more claim.
INSERT INTO epoch (cloud, life, number) VALUES (%(cloud)s, gen_random_uuid(), 1)
ON CONFLICT (cloud) DO UPDATE SET number = epoch.number + 1;

-- name: new_epoch
-- A restored database that was accepted gets a name of its own, ahead of what the cloud remembers.
INSERT INTO epoch (cloud, life, number, accepted_at) VALUES (%(cloud)s, gen_random_uuid(), %(number)s, %(at)s)
ON CONFLICT (cloud) DO UPDATE SET life = gen_random_uuid(), number = greatest(epoch.number, %(number)s), accepted_at = %(at)s
RETURNING number;

-- name: take_retention
-- One worker removes old records when it is due; if it dies, another does after the delay.
UPDATE retention SET next_at = %(later)s WHERE next_at <= %(at)s RETURNING next_at;

-- name: end_retention
-- `removed`: rows by kind; the totals grow.
UPDATE retention SET next_at = %(next)s, ended_at = %(at)s, removed = (
    SELECT coalesce(jsonb_object_agg(key, coalesce((retention.removed ->> key)::bigint, 0) + value::bigint), '{}')
    FROM jsonb_each_text(%(removed)s));

-- name: retention
SELECT next_at, ended_at, removed FROM retention;

-- part: note_removed
-- The last event of each project that is removed: readers that were before it learn of it (`removed` of a page).
, noted AS (
    INSERT INTO event_removed (project_id, life, xact, sequence)
    SELECT DISTINCT ON (project_id) project_id, life, xact, sequence FROM gone WHERE project_id IS NOT NULL
    ORDER BY project_id, life DESC, xact DESC, sequence DESC
    ON CONFLICT (project_id) DO UPDATE SET life = excluded.life, xact = excluded.xact, sequence = excluded.sequence
    WHERE (event_removed.life, event_removed.xact, event_removed.sequence)
        < (excluded.life, excluded.xact, excluded.sequence))

-- name: prune_events
-- Of owners that were released long ago, the last ones first: those of earlier ones are gone already. By owner: by age,
-- events kept for live ones would be scanned each time.
WITH gone AS (DELETE FROM event WHERE sequence = ANY(ARRAY(
    SELECT e.sequence FROM owner o CROSS JOIN LATERAL (
        SELECT sequence FROM event WHERE owner_id = o.id AND at < %(before)s FOR UPDATE SKIP LOCKED
    ) e
    WHERE o.state = 'RELEASED' AND o.released_at < %(before)s ORDER BY o.released_at DESC LIMIT %(limit)s))
    RETURNING project_id, life, xact, sequence)
    @note_removed
SELECT FROM gone;

-- name: prune_live_events
-- Of live ones, those beyond the last so many (`kept` + 1).
WITH gone AS (DELETE FROM event WHERE sequence IN (
    SELECT e.sequence FROM owner o
    CROSS JOIN LATERAL (SELECT sequence FROM event WHERE owner_id = o.id ORDER BY sequence DESC OFFSET %(kept)s LIMIT 1) last
    JOIN event e ON e.owner_id = o.id AND e.sequence < last.sequence AND e.at < %(before)s
    WHERE o.state <> 'RELEASED' AND o.created_at < %(before)s LIMIT %(limit)s)
    RETURNING project_id, life, xact, sequence)
    @note_removed
SELECT FROM gone;

-- name: prune_tombstones
-- Resource rows of owners that were released long ago and have no remains that need them.
DELETE FROM resource WHERE (owner_id, key) IN (
    SELECT r.owner_id, r.key FROM owner o JOIN resource r ON r.owner_id = o.id
    WHERE o.state = 'RELEASED' AND o.released_at < %(before)s
      AND NOT EXISTS (SELECT 1 FROM number_hold h WHERE h.owner_id = o.id)
      AND NOT EXISTS (SELECT 1 FROM stale_number k WHERE k.owner_id = o.id)
      AND NOT EXISTS (SELECT 1 FROM quarantine_pod q WHERE q.pod_id = o.id)
      AND NOT EXISTS (SELECT 1 FROM trace t WHERE t.owner_id = o.id AND t.gone_at IS NULL)
    LIMIT %(limit)s FOR UPDATE OF r SKIP LOCKED);

-- name: prune_live_tombstones
-- The same for live owners: rows of what was removed long ago, or wasn't wanted any more before it was requested, but
-- that only if no worker can have requested it without a note, since then the next worker looks for it. Not data, as
-- the receipt says where it was kept; not segments, whose numbers may be held by their rows; and nothing while a node
-- on its way back has to be read. Changes of an owner lock its row, and what was wanted again meanwhile is no tombstone
-- any more.
DELETE FROM resource WHERE expunged IS NOT NULL AND (state = 'absent' AND finished_at < %(before)s OR state = 'wanted')
  AND (owner_id, key) IN (
    SELECT r.owner_id, r.key FROM owner o JOIN resource r ON r.owner_id = o.id
    WHERE o.state <> 'RELEASED' AND o.wanted = 'present' AND o.created_at < %(before)s
      AND (o.held_until IS NULL OR o.held_until < %(at)s)
      AND r.expunged IS NOT NULL AND (r.state = 'absent' AND r.finished_at < %(before)s
          OR r.state = 'wanted' AND o.held_until IS NULL AND o.late_until IS NULL)
      AND r.kind <> ALL(%(kept)s)
      AND NOT EXISTS (SELECT 1 FROM node_hold h WHERE h.pod_id = o.id AND h.leaving IS NOT NULL)
      AND NOT EXISTS (SELECT 1 FROM quarantine_pod q WHERE q.pod_id = o.id)
      AND NOT EXISTS (SELECT 1 FROM trace t WHERE t.owner_id = o.id AND t.gone_at IS NULL)
    LIMIT %(limit)s FOR UPDATE OF o SKIP LOCKED);

-- name: prune_given_back
-- What was read of nodes that a pod freed early, and of another owner's numbers: the receipt has it once it is signed.
DELETE FROM given_back WHERE id IN (
    SELECT g.id FROM given_back g JOIN owner o ON o.id = g.owner_id
    WHERE o.state = 'RELEASED' AND o.released_at < %(before)s
      AND EXISTS (SELECT 1 FROM receipt r WHERE r.owner_id = o.id)
    LIMIT %(limit)s);

-- name: prune_live_given_back
-- Of live owners, readings replaced by later ones of the same things, by name: nodes that came and went again.
DELETE FROM given_back WHERE id IN (
    SELECT g.id FROM given_back g JOIN owner o ON o.id = g.owner_id
    WHERE o.state <> 'RELEASED' AND g.at < %(before)s AND NOT EXISTS (
        SELECT 1 FROM jsonb_array_elements(g.items) i WHERE NOT EXISTS (
            SELECT 1 FROM given_back later, jsonb_array_elements(later.items) j
            WHERE later.owner_id = g.owner_id AND later.id > g.id AND g.nodes <@ later.nodes
              AND j ->> 'plane' = i ->> 'plane'
              AND split_part(j ->> 'subject', ' ', 1) = split_part(i ->> 'subject', ' ', 1)))
    LIMIT %(limit)s);

-- name: prune_generations
-- Earlier generations of orders; the pod's own row has the last one.
DELETE FROM pod_generation WHERE (pod_id, generation) IN (
    SELECT g.pod_id, g.generation FROM pod_generation g JOIN pod p ON p.id = g.pod_id
    WHERE p.state = 'RELEASED' AND p.released_at < %(before)s
    LIMIT %(limit)s);

-- name: prune_live_generations
-- Of live pods, those beyond the last so many.
DELETE FROM pod_generation WHERE (pod_id, generation) IN (
    SELECT g.pod_id, g.generation FROM pod p
    CROSS JOIN LATERAL (
        SELECT generation FROM pod_generation WHERE pod_id = p.id ORDER BY generation DESC OFFSET %(kept)s LIMIT 1) last
    JOIN pod_generation g ON g.pod_id = p.id AND g.generation <= last.generation AND g.at < %(before)s
    WHERE p.state <> 'RELEASED' AND p.created_at < %(before)s LIMIT %(limit)s);

-- name: prune_traces
-- Corrections of a receipt stay with the receipt.
DELETE FROM trace WHERE id IN (SELECT id FROM trace WHERE others AND gone_at < %(before)s LIMIT %(limit)s);

-- name: prune_audit_log
DELETE FROM audit_log WHERE sequence IN (
    SELECT sequence FROM audit_log WHERE last_at < %(before)s ORDER BY last_at LIMIT %(limit)s);

-- name: prune_sites
-- Generations that were replaced long ago; the active one stays, however old it is.
DELETE FROM site WHERE generation IN (
    SELECT generation FROM (
        SELECT generation, lead(activated_at) OVER (ORDER BY generation) AS replaced_at FROM site
    ) known WHERE replaced_at < %(before)s ORDER BY generation LIMIT %(limit)s);

-- name: change_pod
-- The next generation of a pod that has nodes. No row: another change was faster, or it is being released.
UPDATE pod SET generation = %(generation)s, ordered = %(ordered)s, units = %(units)s, plan = %(plan)s, lease_end = %(lease_end)s,
    lease_warned = lease_warned AND lease_end IS NOT DISTINCT FROM %(lease_end)s,
    changed_at = coalesce(changed_at, %(changed_at)s), failures = 0, woken = woken + 1, next_at = now()
WHERE id = %(id)s AND generation = %(base)s AND wanted = 'present' AND plan IS NOT NULL AND state <> 'RELEASED'
RETURNING *;

-- name: change_waiting
-- The next generation of an order that waits, or could never be placed. Without its place it counts as if it came now.
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
-- A pod's state before its first change.
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

-- name: adopt_resource
-- It exists already, created by someone else: it is looked up by its id, and its mark is one of the differences.
UPDATE resource SET outside_id = %(outside_id)s, state = 'creating',
    former = CASE WHEN outside_id IS NULL THEN former
        ELSE former || jsonb_build_object('id', outside_id, 'facts', facts) END
WHERE owner_id = %(owner_id)s AND key = %(key)s;

-- name: change_resource
-- It stays, and is wanted differently: what was settled is observed again.
UPDATE resource SET document = %(document)s, position = %(position)s, generation = %(generation)s,
    since = CASE state WHEN 'settled' THEN %(at)s ELSE since END,
    state = CASE state WHEN 'settled' THEN 'pending' ELSE state END
WHERE owner_id = %(owner_id)s AND key = %(key)s;

-- name: change_needs
-- It stays as it is, and doesn't wait any more for what the order doesn't want.
UPDATE resource SET document = %(document)s, position = %(position)s WHERE owner_id = %(owner_id)s AND key = %(key)s;

-- name: want_resource_again
-- It was not wanted for a while. Its last id outside is kept until it has another; what is on its way out goes, and is
-- recreated after that. `forgets`: what was seen gone, or stays outside as someone else's, doesn't belong to it any
-- more. `guest`: what was seen gone is a predecessor; the id of the new one may be unknown when its host is read.
-- `keeps`: what the outside hasn't accepted the removal of yet stays.
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
-- It is held until it was read back clean.
UPDATE node_hold SET leaving = %(generation)s, leaving_ports = %(ports)s, cleared = false WHERE node = %(node)s AND pod_id = %(pod_id)s;

-- name: leave_part
-- The same for a server's part of a shared node; the pod may keep others there.
UPDATE part_hold SET leaving = true WHERE node = %(node)s AND pod_id = %(pod_id)s AND server = %(server)s;

-- name: hold_shared_node
-- For a part of it; it is held already if the pod has another.
INSERT INTO node_hold (node, pod_id, since, spare, whole) VALUES (%(node)s, %(pod_id)s, %(at)s, false, false)
ON CONFLICT (node, pod_id) DO NOTHING;

-- name: use_spare
UPDATE node_hold SET spare = false WHERE node = %(node)s AND pod_id = %(pod_id)s;

-- name: nodes_leaving
-- `at`: since when.
SELECT h.node, h.leaving_ports AS ports, h.cleared, g.at
FROM node_hold h LEFT JOIN pod_generation g ON g.pod_id = h.pod_id AND g.generation = h.leaving
WHERE h.pod_id = %(pod_id)s AND h.leaving IS NOT NULL ORDER BY h.node;

-- name: insert_given_back
INSERT INTO given_back (owner_id, nodes, at, items) VALUES (%(owner_id)s, %(nodes)s, %(at)s, %(items)s);

-- name: given_back
SELECT nodes, at, items FROM given_back WHERE owner_id = %(owner_id)s ORDER BY id;

-- name: tenant_networks
-- Live owners of kind network with what was last read of them; `wanted`: absent if they are being released.
SELECT t.*, o.wanted, o.name, o.project_id FROM tenant_network t JOIN ONLY owner o ON o.id = t.owner_id
WHERE t.cloud = %(cloud)s AND t.fabric = %(fabric)s AND o.state <> 'RELEASED' ORDER BY t.network_id;

-- name: served_networks
-- Documents of all that aren't being released.
SELECT t.document FROM tenant_network t JOIN ONLY owner o ON o.id = t.owner_id
WHERE o.state <> 'RELEASED' AND o.wanted = 'present' ORDER BY t.network_id;

-- name: tenant_network_places
-- Places of live ones that aren't being released.
SELECT DISTINCT t.cloud, t.fabric FROM tenant_network t JOIN ONLY owner o ON o.id = t.owner_id
WHERE o.state <> 'RELEASED' AND o.wanted = 'present';

-- name: tenant_network
SELECT * FROM tenant_network WHERE owner_id = %(owner_id)s;

-- name: insert_tenant_network
INSERT INTO tenant_network (owner_id, cloud, fabric, network_id, document, read_at, ports_in, waiting, out, waits_since)
VALUES (%(owner_id)s, %(cloud)s, %(fabric)s, %(network_id)s, %(document)s, %(at)s, %(in)s, %(waiting)s, %(out)s,
    %(waits_since)s);

-- name: set_tenant_network
-- Unless another worker's reading began later; no row then.
UPDATE tenant_network SET document = %(document)s, read_at = %(at)s, ports_in = %(in)s, waiting = %(waiting)s,
    out = %(out)s, waits_since = %(waits_since)s
WHERE owner_id = %(owner_id)s AND read_at < %(at)s RETURNING owner_id;

-- name: read_tenant_networks
-- They were seen unchanged. Skips locked rows: another worker is reading them, too.
WITH mine AS (SELECT owner_id FROM tenant_network WHERE owner_id = ANY(%(owners)s) FOR UPDATE SKIP LOCKED)
UPDATE tenant_network t SET read_at = greatest(t.read_at, %(at)s) FROM mine WHERE t.owner_id = mine.owner_id;

-- name: networks_of_weft
-- Networks in a cloud that live owners have, or are about to have: id, or null while it is unknown, and number.
SELECT r.outside_id AS id, (r.document -> 'spec' ->> 'segment')::integer AS number
FROM resource r JOIN owner o ON o.id = r.owner_id
WHERE r.kind = 'network' AND r.document ->> 'where' = %(cloud)s AND o.state <> 'RELEASED' AND r.state <> 'absent';

-- name: nodes_of_pods
SELECT node, whole FROM node_hold;

-- name: count_tenant_ports
SELECT count(*) AS networks, coalesce(sum(t.ports_in), 0) AS ports_in, coalesce(sum(t.waiting), 0) AS waiting,
    coalesce(sum(t.out), 0) AS out, extract(epoch FROM now() - min(t.waits_since))::float8 AS oldest,
    extract(epoch FROM now() - min(t.read_at))::float8 AS unread
FROM tenant_network t JOIN ONLY owner o ON o.id = t.owner_id WHERE o.state <> 'RELEASED' AND o.wanted = 'present';

-- name: saw_fabric
-- What a fabric's managers reported, for the metrics; port_errors is null where they don't report it.
INSERT INTO fabric_status (fabric, known, problems, port_errors, read_at)
VALUES (%(fabric)s, %(known)s, %(problems)s, %(port_errors)s, now())
ON CONFLICT (fabric) DO UPDATE SET known = excluded.known, problems = excluded.problems,
    port_errors = excluded.port_errors, read_at = excluded.read_at;

-- name: fabrics_left
-- Fabrics that the site no longer has.
DELETE FROM fabric_status WHERE NOT fabric = ANY(%(fabrics)s);

-- name: fabrics_seen
SELECT fabric, known, problems, port_errors, read_at, extract(epoch FROM now() - read_at)::float8 AS age
FROM fabric_status ORDER BY fabric;

-- name: notify_tenant_networks
-- The cloud has reported that something changed: the keeper of tenants' networks looks.
SELECT pg_notify('weft_event', 'tenant networks');

-- name: newest_site_owner
-- The owner of a site's resources, also a released one.
SELECT * FROM ONLY owner WHERE kind = 'site' AND site = %(site)s
ORDER BY state = 'RELEASED', created_at DESC, released_at DESC, id LIMIT 1;

-- name: site_desired
SELECT * FROM site_desired WHERE owner_id = %(owner_id)s;

-- name: set_site_desired
-- Unless a newer generation of the site was applied meanwhile; no row then. Adoptions stay, except those that are done
-- or being removed (`again`: if it comes back, then as another thing), and those that aren't wanted any more.
INSERT INTO site_desired (owner_id, generation, graph, adopted, going, applied_at, applied_by)
VALUES (%(owner_id)s, %(generation)s, %(graph)s, %(adopted)s, %(going)s, %(at)s, %(by)s)
ON CONFLICT (owner_id) DO UPDATE SET generation = excluded.generation, graph = excluded.graph, going = excluded.going,
    adopted = (SELECT coalesce(jsonb_object_agg(a.key, a.value), '{}')
        FROM jsonb_each((site_desired.adopted - %(again)s::text[]) || excluded.adopted) a
        WHERE a.key IN (SELECT g.one->>'key' FROM jsonb_array_elements(excluded.graph->'resources') g (one))),
    applied_at = excluded.applied_at, applied_by = excluded.applied_by
WHERE site_desired.generation <= excluded.generation RETURNING owner_id;

-- name: ids_in_use
-- Which of these ids a resource of a live owner has, or is about to have (adopted by a site).
SELECT r.outside_id AS id FROM resource r JOIN owner o ON o.id = r.owner_id
WHERE r.outside_id = ANY(%(ids)s) AND r.state <> 'absent' AND o.state <> 'RELEASED'
UNION SELECT a.value FROM site_desired d JOIN ONLY owner o ON o.id = d.owner_id, LATERAL jsonb_each_text(d.adopted) a
WHERE o.state <> 'RELEASED' AND a.value = ANY(%(ids)s);

-- name: things_to_adopt
-- Which of these ids an owner has adopted, whether it has visited them yet or not.
SELECT o.id AS owner_id, o.kind AS owner_kind, o.name, a.key, a.value AS outside_id, g.one ->> 'where' AS place
FROM site_desired d JOIN ONLY owner o ON o.id = d.owner_id, LATERAL jsonb_each_text(d.adopted) a,
    LATERAL jsonb_array_elements(d.graph -> 'resources') g (one)
WHERE o.state <> 'RELEASED' AND o.wanted = 'present' AND a.value = ANY(%(ids)s) AND g.one ->> 'key' = a.key;

-- name: pods_on_networks
-- Live pods with ports, routers or floating IPs on networks of the site, by the networks' names or ids, as pods refer
-- to them.
SELECT DISTINCT p.name, coalesce(r.document -> 'spec' ->> 'site_network', r.document -> 'spec' ->> 'external_network')
    AS network
FROM resource r JOIN pod p ON p.id = r.owner_id
WHERE p.state <> 'RELEASED' AND r.kind IN ('port', 'router', 'floating_ip')
  AND coalesce(r.document -> 'spec' ->> 'site_network', r.document -> 'spec' ->> 'external_network') = ANY(%(networks)s)
ORDER BY p.name;

-- name: pods_touched
-- What operators read of pods that an outage would touch.
SELECT id, state, wanted FROM pod WHERE id = ANY(%(ids)s);

-- name: pods_to_place
-- Pods' rows as pod_by_id, without the graph in their plan.
SELECT
    @pod_fields, plan || '{"graph": {"resources": []}}' AS plan
FROM pod WHERE id = ANY(%(ids)s) AND plan IS NOT NULL;

-- name: pods_with_flavors
-- Live pods with servers of these flavors.
SELECT DISTINCT p.name, r.document ->> 'where' AS cloud, r.document -> 'spec' ->> 'flavor' AS flavor
FROM resource r JOIN pod p ON p.id = r.owner_id
WHERE p.state <> 'RELEASED' AND r.kind = 'server' AND r.document -> 'spec' ->> 'flavor' = ANY(%(flavors)s)
ORDER BY p.name;

-- name: lock_owner
SELECT wanted, state FROM ONLY owner WHERE id = %(id)s FOR UPDATE;

-- name: newest_site_receipt
-- The owner of what was destroyed last.
SELECT id FROM ONLY owner WHERE kind = 'site' AND site = %(site)s AND state = 'RELEASED'
ORDER BY released_at DESC, id LIMIT 1;

-- name: prune_site_desired
DELETE FROM site_desired WHERE owner_id IN (
    SELECT w.owner_id FROM site_desired w JOIN ONLY owner o ON o.id = w.owner_id
    WHERE o.state = 'RELEASED' AND o.released_at < %(before)s LIMIT %(limit)s);

-- name: prune_tenant_networks
DELETE FROM tenant_network WHERE owner_id IN (
    SELECT t.owner_id FROM tenant_network t JOIN ONLY owner o ON o.id = t.owner_id
    WHERE o.state = 'RELEASED' AND o.released_at < %(before)s LIMIT %(limit)s);

-- name: list_tenant_networks
-- Live ones, by id; all projects' if the project is null.
SELECT o.id, o.project_id, o.state, o.reason, o.since, t.cloud, t.fabric, t.network_id, t.read_at, t.ports_in, t.waiting,
    t.out, t.document ->> 'name' AS network_name, (t.document ->> 'number')::integer AS number
FROM tenant_network t JOIN ONLY owner o ON o.id = t.owner_id
WHERE o.state <> 'RELEASED' AND (%(project_id)s::text IS NULL OR o.project_id = %(project_id)s) AND t.network_id > %(after)s
ORDER BY t.network_id LIMIT %(limit)s;

-- name: find_released_network
-- The owner of that id or name that was released last.
SELECT o.id FROM tenant_network t JOIN ONLY owner o ON o.id = t.owner_id
WHERE o.state = 'RELEASED' AND (t.network_id = %(name)s OR t.document ->> 'name' = %(name)s)
ORDER BY t.network_id = %(name)s DESC, o.released_at DESC, o.id LIMIT 1;

-- name: find_tenant_networks
-- Live ones of that id or name.
SELECT o.id, o.project_id, o.state, o.reason, o.since, t.*
FROM tenant_network t JOIN ONLY owner o ON o.id = t.owner_id
WHERE o.state <> 'RELEASED' AND (%(project_id)s::text IS NULL OR o.project_id = %(project_id)s)
  AND (t.network_id = %(name)s OR t.document ->> 'name' = %(name)s) ORDER BY t.network_id;

-- name: insert_web_session
INSERT INTO web_session (digest, sealed, user_id, created_at, expires_at)
VALUES (%(digest)s, %(sealed)s, %(user)s, %(at)s, %(expires)s);

-- name: limit_web_sessions
-- A user's newest ones stay.
DELETE FROM web_session WHERE digest IN (
    SELECT digest FROM web_session WHERE user_id = %(user)s ORDER BY created_at DESC, digest OFFSET %(most)s
);

-- name: web_session
SELECT sealed, expires_at FROM web_session WHERE digest = %(digest)s AND expires_at > coalesce(%(at)s, now());

-- name: delete_web_session
DELETE FROM web_session WHERE digest = %(digest)s;

-- name: prune_web_sessions
DELETE FROM web_session WHERE digest IN (
    SELECT digest FROM web_session WHERE expires_at <= %(before)s LIMIT %(limit)s
);

-- name: keep_order_key
-- An old one is another order's from now on.
INSERT INTO order_key (project_id, user_id, key, digest, pod_id, at)
VALUES (%(project_id)s, %(user_id)s, %(key)s, %(digest)s, %(pod_id)s, now())
ON CONFLICT (project_id, user_id, key) DO UPDATE
SET digest = excluded.digest, pod_id = excluded.pod_id, at = excluded.at
WHERE order_key.at < now() - %(kept)s * interval '1 second';

-- name: order_key
SELECT digest, pod_id FROM order_key WHERE project_id = %(project_id)s AND user_id = %(user_id)s AND key = %(key)s;

-- name: ordered_once
-- The pod of an order that was sent before, and whether its claim was checked.
SELECT id, plan IS NULL OR token > 0 OR next_at <= now() AS confirmed FROM pod WHERE id = %(id)s;

-- name: prune_order_keys
-- Old ones, and earlier those whose order made no pod.
DELETE FROM order_key WHERE (project_id, user_id, key) IN (
    SELECT project_id, user_id, key FROM order_key k
    WHERE at < %(unmade)s AND (at < %(before)s OR NOT EXISTS (SELECT FROM pod WHERE id = k.pod_id)) LIMIT %(limit)s
);

-- name: monitored_servers
-- Tenants' servers of pods that were handed over and aren't being released: the address of the port for management (the
-- first `normal` one, otherwise the first), and the floating IP of the first port, if Neutron has given one.
SELECT p.id, p.name AS pod, p.project_id, s.document ->> 'name' AS server, s.document ->> 'node' AS node,
    s.document ->> 'where' AS cloud, s.document -> 'spec' ->> 'flavor' AS flavor, m.address, f.floating
FROM pod p
JOIN resource s ON s.owner_id = p.id AND s.kind = 'server' AND s.state <> 'absent' AND s.expunged IS NULL
    AND coalesce(s.document ->> 'owner', 'tenant') = 'tenant'
LEFT JOIN LATERAL (
    SELECT r.document -> 'spec' ->> 'address' AS address
    FROM jsonb_array_elements_text(s.document -> 'spec' -> 'ports') WITH ORDINALITY AS port(key, place)
    JOIN resource r ON r.owner_id = p.id AND r.kind = 'port' AND r.key = port.key
    ORDER BY r.document -> 'spec' ->> 'vnic_type' <> 'normal', port.place LIMIT 1
) m ON true
LEFT JOIN LATERAL (
    SELECT r.facts ->> 'address' AS floating FROM resource r
    WHERE r.owner_id = p.id AND r.kind = 'floating_ip' AND r.state <> 'absent'
        AND r.document -> 'spec' ->> 'port' = s.document -> 'spec' -> 'ports' ->> 0 LIMIT 1
) f ON true
WHERE p.phase = 'serving' AND p.wanted = 'present'
ORDER BY p.project_id, p.name, server LIMIT %(most)s;

-- name: monitored_controllers
-- The address of a port of this key, of pods that were handed over.
SELECT p.id, p.name AS pod, p.project_id, '' AS server, '' AS node, '' AS cloud, '' AS flavor,
    r.document -> 'spec' ->> 'address' AS address, NULL AS floating
FROM pod p JOIN resource r ON r.owner_id = p.id AND r.key = %(port)s AND r.state <> 'absent'
WHERE p.phase = 'serving' AND p.wanted = 'present' ORDER BY p.id LIMIT %(most)s;

-- name: monitored_nodes
-- Nodes of pods.
SELECT h.node, p.id, p.name AS pod, p.project_id, h.spare FROM node_hold h JOIN pod p ON p.id = h.pod_id
ORDER BY h.node, p.id LIMIT %(most)s;

-- name: last_backup
-- Seconds since the newest backup was taken; no row: there was none.
SELECT extract(epoch FROM %(at)s - taken_at)::float AS age FROM last_backup;

-- name: lock_bandwidth
-- One report at a time of a pod, or of nodes: the next one is compared with it.
SELECT pg_advisory_xact_lock(hashtextextended('bandwidth ' || %(subject)s, 0));

-- name: bandwidth_of_pod
-- The newest certificate of a pod.
SELECT id, at, document FROM bandwidth_certificate WHERE pod_id = %(pod_id)s ORDER BY at DESC LIMIT 1;

-- name: bandwidth_of_node
-- The newest certificate by operators that has a node.
SELECT at, results ->> %(node)s AS result, (document #>> '{certificate,began}')::timestamptz AS began, document FROM bandwidth_certificate
WHERE pod_id IS NULL AND results ? %(node)s ORDER BY at DESC LIMIT 1;

-- name: bandwidth_of_nodes
-- The newest certificate by operators of exactly these nodes.
SELECT id, at, document FROM bandwidth_certificate
WHERE pod_id IS NULL AND results ?& %(nodes)s::text[]
    AND (SELECT count(*) FROM jsonb_object_keys(results)) = cardinality(%(nodes)s::text[])
ORDER BY at DESC LIMIT 1;

-- name: insert_bandwidth
INSERT INTO bandwidth_certificate (id, pod_id, at, results, hosts, document)
VALUES (%(id)s, %(pod_id)s, %(at)s, %(results)s, %(hosts)s, %(document)s);

-- name: trim_bandwidth_of_pod
DELETE FROM bandwidth_certificate WHERE pod_id = %(pod_id)s AND id NOT IN (
    SELECT id FROM bandwidth_certificate WHERE pod_id = %(pod_id)s ORDER BY at DESC LIMIT %(most)s);

-- name: trim_bandwidth_of_nodes
-- Certificates of nodes stay while they are the newest ones of any of their nodes, and else as long as the site says.
DELETE FROM bandwidth_certificate c WHERE pod_id IS NULL AND at < %(before)s AND NOT EXISTS (
    SELECT FROM jsonb_object_keys(c.results) node WHERE NOT EXISTS (
        SELECT FROM bandwidth_certificate n WHERE n.pod_id IS NULL AND n.at > c.at AND n.results ? node));

-- name: note_bandwidth
-- A test that operators reported, in the history of each of its nodes.
INSERT INTO node_history (node, at, type, message, by)
SELECT key, %(at)s, 'check', node_message('NODE_BANDWIDTH', jsonb_build_object('result', value)), %(by)s
FROM jsonb_each_text(%(results)s) ORDER BY key;

-- name: keep_agent_certificates
-- One row for each agent of the site; those of others go. Weft's own are known by their hosts.
WITH wanted AS (
    SELECT unnest(%(fabrics)s::text[]) AS fabric, unnest(%(agents)s::text[]) AS agent
), gone AS (
    DELETE FROM agent_certificate c WHERE kind = 'agent'
        AND NOT EXISTS (SELECT FROM wanted w WHERE w.fabric = c.fabric AND w.agent = c.agent)
)
INSERT INTO agent_certificate (fabric, kind, agent) SELECT fabric, 'agent', agent FROM wanted ORDER BY fabric, agent
ON CONFLICT DO NOTHING;

-- name: claim_agent_certificates
-- Those of agents that are due; for `hold` no other worker looks at them.
UPDATE agent_certificate c SET next_at = now() + %(hold)s FROM (
    SELECT fabric, kind, agent FROM agent_certificate WHERE kind = 'agent' AND next_at <= now()
    ORDER BY next_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
) due WHERE c.fabric = due.fabric AND c.kind = due.kind AND c.agent = due.agent RETURNING c.*;

-- name: own_certificate
-- The row of one of weft's own, made if it isn't there.
INSERT INTO agent_certificate (fabric, kind, agent) VALUES (%(fabric)s, 'own', %(agent)s)
ON CONFLICT (fabric, kind, agent) DO UPDATE SET next_at = agent_certificate.next_at RETURNING *;

-- name: note_certificate_issue
-- Before it leaves. Nothing if another one was issued less than `least` ago, by whichever process.
WITH mine AS (
    UPDATE agent_certificate SET issued_at = now() WHERE fabric = %(fabric)s AND kind = %(kind)s AND agent = %(agent)s
        AND (issued_at IS NULL OR issued_at <= now() - %(least)s) RETURNING fabric, kind, agent
)
INSERT INTO issued_certificate (serial, fabric, kind, agent, not_after)
SELECT %(serial)s, fabric, kind, agent, %(not_after)s FROM mine RETURNING serial;

-- name: note_certificate
-- What was seen, or why nothing was (`serial` null: what was seen before stays).
UPDATE agent_certificate SET message = %(message)s, next_at = now() + %(pause)s,
    serial = coalesce(%(serial)s, serial),
    not_before = CASE WHEN %(serial)s::text IS NULL THEN not_before ELSE %(not_before)s END,
    not_after = CASE WHEN %(serial)s::text IS NULL THEN not_after ELSE %(not_after)s END,
    seen_at = CASE WHEN %(serial)s::text IS NULL THEN seen_at ELSE now() END
WHERE fabric = %(fabric)s AND kind = %(kind)s AND agent = %(agent)s;

-- name: agent_certificates
SELECT * FROM agent_certificate ORDER BY fabric, kind, agent LIMIT 20000;

-- name: trim_issued_certificates
DELETE FROM issued_certificate WHERE not_after < now() - interval '90 days';

-- name: trim_own_certificates
-- Of hosts that weft doesn't run on any more, and of files that the site doesn't name any more: workers look at theirs
-- each minute, and put the next look off by six hours at most.
DELETE FROM agent_certificate WHERE kind = 'own' AND next_at < now() - interval '2 days';
