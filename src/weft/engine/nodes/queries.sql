-- Statements of weft.engine.nodes, by name. `%(x)s` are psycopg parameters.

-- name: pod_has_node
SELECT pod_id FROM node_hold WHERE node = %(node)s LIMIT 1;

-- name: store_node_tests
UPDATE acceptance SET tests = %(tests)s WHERE node = %(node)s AND what = %(what)s;

-- name: drain_nodes
-- Returns the nodes that weren't drained, or whose drain was different.
WITH made AS (
    INSERT INTO drain (node, since, drained_by, until_at, reason, public, waits)
    SELECT node, %(at)s, %(by)s, %(until)s, %(reason)s, %(public)s, %(waits)s FROM unnest(%(nodes)s::text[]) node ORDER BY node
    ON CONFLICT (node) DO UPDATE SET drained_by = excluded.drained_by, until_at = excluded.until_at,
        reason = excluded.reason, public = excluded.public, waits = excluded.waits, revision = nextval('revision')
    WHERE (drain.until_at, drain.reason, drain.public, drain.waits)
        IS DISTINCT FROM (excluded.until_at, excluded.reason, excluded.public, excluded.waits)
    RETURNING *
)
INSERT INTO node_history (node, at, type, message, by)
SELECT node, %(at)s, 'drain', node_message('NODE_DRAINED', jsonb_build_object('until', until_at, 'reason', nullif(reason, ''),
    'public', nullif(public, ''))), drained_by
FROM made ORDER BY node RETURNING node;

-- name: newest_drain
-- Highest revision of the nodes' drains; null: none of them is drained.
SELECT max(revision) AS revision FROM (SELECT revision FROM drain WHERE node = ANY(%(nodes)s) FOR UPDATE) locked;

-- name: undrain_nodes
WITH ended AS (
    DELETE FROM drain WHERE node = ANY(%(nodes)s) RETURNING node
)
INSERT INTO node_history (node, at, type, message, by)
SELECT node, %(at)s, 'drain', node_message('NODE_UNDRAINED', '{}'), %(by)s FROM ended ORDER BY node RETURNING node;

-- name: drains_due
-- Nodes whose drain came due since the last call. Drains that were ended or changed count again.
WITH ended AS (
    DELETE FROM drain_said s WHERE NOT EXISTS (SELECT FROM drain d WHERE (d.node, d.until_at) = (s.node, s.until_at))
)
INSERT INTO drain_said (node, until_at) SELECT node, until_at FROM drain WHERE until_at <= %(at)s AND NOT waits ORDER BY node
ON CONFLICT (node) DO UPDATE SET until_at = excluded.until_at WHERE drain_said.until_at <> excluded.until_at
RETURNING node;

-- part: to_empty
-- Nodes that should be empty by now, and the pods on them whose orders ask for a release then. Idle spares don't count,
-- nor nodes that the pod is leaving, nor pods in clouds whose note can't be read (`unread`).
FROM drain d JOIN (
    -- not by drain, which PostgreSQL plans as a scan of a whole table for each one
    SELECT node, pod_id FROM node_hold WHERE leaving IS NULL AND NOT spare
        AND node = ANY(ARRAY(SELECT node FROM drain WHERE until_at <= %(at)s AND NOT waits))
    UNION SELECT substr(space, 6), owner_id FROM number_hold
        WHERE space IN (SELECT 'host/' || node FROM drain WHERE until_at <= %(at)s AND NOT waits)
) h ON h.node = d.node JOIN pod p ON p.id = h.pod_id
WHERE d.until_at <= %(at)s AND NOT d.waits AND p.wanted = 'present' AND p.state <> 'RELEASED' AND p.plan IS NOT NULL
    AND p.ordered ->> 'on_drain' = 'release' AND NOT coalesce(p.cloud = ANY (%(unread)s::text[]), false)

-- name: lock_pods_to_empty
-- Locks the pods with the drains, so that none is ended or moved meanwhile. Skips locked rows, which stay due.
SELECT p.id
@to_empty
ORDER BY p.id, d.node FOR UPDATE OF p SKIP LOCKED FOR SHARE OF d SKIP LOCKED;

-- name: pods_to_empty
-- The locked pods, read again: a change may have been committed right before the lock.
SELECT p.id AS pod_id, p.name, h.node, d.until_at,
    @inner_host AS inner_host
@to_empty
AND p.id = ANY(%(ids)s) ORDER BY p.id, h.node;

-- name: end_pod
-- Like end_leases, for one pod whose row is locked.
UPDATE pod SET wanted = 'absent', woken = woken + 1, next_at = now() WHERE id = %(id)s;

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

-- name: node_check_to_change
-- Like node_check, with a lock until the transaction ends: operators may judge a check at the same moment.
SELECT node, at, status, expected, problems, document, known FROM node_check WHERE node = %(node)s FOR UPDATE;

-- name: store_node_check
INSERT INTO node_check (node, at, status, expected, problems, document, known)
VALUES (%(node)s, %(at)s, %(status)s, %(expected)s, %(problems)s, %(document)s, %(known)s)
ON CONFLICT (node) DO UPDATE SET at = excluded.at, status = excluded.status, expected = excluded.expected,
    problems = excluded.problems, document = excluded.document, known = excluded.known;

-- name: store_late_check
-- A report that was made before the last one: its document isn't kept.
UPDATE node_check SET at = %(at)s, problems = %(problems)s WHERE node = %(node)s;

-- name: forget_node_check
DELETE FROM node_check WHERE node = %(node)s;

-- name: count_check_entries
SELECT count(*) AS number FROM node_history WHERE node = %(node)s AND type = 'check' AND at > %(since)s;

-- name: judge_check
-- Writes the operators' judgement of a check on all nodes where it fails now, with an entry in each one's history.
WITH those AS MATERIALIZED (
    SELECT node FROM node_check WHERE problems @> jsonb_build_array(jsonb_build_object('code', %(code)s::text, 'status', 'failed'))
        AND node = ANY(%(nodes)s)
    ORDER BY node FOR UPDATE
), judged AS (
    UPDATE node_check c SET problems = (
        SELECT jsonb_agg(CASE WHEN p ->> 'code' = %(code)s AND p ->> 'status' = 'failed'
            THEN (p - 'judged') || %(judged)s::jsonb ELSE p END ORDER BY n)
        FROM jsonb_array_elements(c.problems) WITH ORDINALITY AS a (p, n))
    FROM those WHERE c.node = those.node RETURNING c.node
), noted AS (
    INSERT INTO node_history (node, at, type, message, by)
    SELECT node, %(at)s, 'check', %(message)s, %(by)s FROM judged ORDER BY node
)
SELECT node FROM judged ORDER BY node;

-- name: note_check
INSERT INTO node_history (node, at, type, message, by) VALUES (%(node)s, %(at)s, 'check', %(message)s, %(by)s);

-- name: lock_check_tokens
SELECT pg_advisory_xact_lock(hashtext('weft.check_tokens'), hashtext(%(node)s));

-- name: check_tokens
-- The tokens without their digests.
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
-- Two readings of different states could lock the same rows in different orders.
SELECT pg_advisory_xact_lock(hashtext('weft.hosts'));

-- name: forget_hosts
-- Forgets nodes that left the site, are in maintenance, or whose cloud wasn't read. Later they count from their first
-- reading again.
DELETE FROM host_down WHERE cloud = %(cloud)s AND seen_at < %(at)s - %(after)s::interval;

-- name: hosts_seen_down
-- Records hosts that a cloud reported as down in a reading that began at `at`, except those that a later reading has
-- seen. After a gap in the readings, or if the clock was set back, a host counts as down from now: it may have been up
-- meanwhile.
INSERT INTO host_down (node, cloud, since, seen_at) SELECT node, %(cloud)s, %(at)s, %(at)s FROM unnest(%(nodes)s::text[]) node ORDER BY node
ON CONFLICT (node) DO UPDATE SET seen_at = %(at)s, cloud = %(cloud)s, since = CASE
    WHEN host_down.reported_at IS NULL AND abs(extract(epoch FROM host_down.seen_at - %(at)s)) > extract(epoch FROM %(gap)s::interval)
    THEN %(at)s ELSE host_down.since END
WHERE NOT (host_down.seen_at > %(at)s AND host_down.seen_at <= %(at)s + %(gap)s::interval);

-- name: hosts_seen_up
-- Like hosts_seen_down, for hosts that are up.
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
-- A reading that began earlier than the last one changes nothing.
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
-- Hosts of a cloud that aren't reported yet.
SELECT count(*) AS number FROM host_down WHERE cloud = %(cloud)s AND reported_at IS NULL AND seen_at >= %(at)s;

-- name: hosts_down_too_long
-- Hosts of a cloud that were read as down for this long, returned once each.
WITH late AS (
    UPDATE host_down SET reported_at = %(at)s
    WHERE cloud = %(cloud)s AND reported_at IS NULL AND seen_at = %(at)s AND since <= %(at)s - %(limit)s::interval
    RETURNING node, since
), noted AS (
    INSERT INTO node_history (node, at, type, message)
    SELECT node, %(at)s, 'failure', node_message('NODE_HOST_DOWN', jsonb_build_object('since', since)) FROM late ORDER BY node
)
SELECT node, since FROM late ORDER BY node;

-- name: pods_of_nodes
-- Live pods that have these nodes, or slots there, and aren't leaving them.
SELECT o.id AS pod_id, h.node,
    @inner_host AS inner_host,
    EXISTS (SELECT FROM node_hold s WHERE (s.node, s.pod_id) = (h.node, h.pod_id) AND s.spare) AS spare
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
-- Records that a reading that began at `at` saw all of a fabric's adapters but these ports, or those in `seen`. What a
-- later reading wrote stays.
DELETE FROM adapter_gone WHERE fabric = %(fabric)s AND NOT port = ANY(%(ports)s)
    AND (%(seen)s::text[] IS NULL OR port = ANY(%(seen)s))
    AND NOT (seen_at > %(at)s AND seen_at <= %(at)s + %(gap)s::interval);

-- name: adapters_up
-- Records adapters of pods' segments whose links are up, once each, and forgets those of released pods.
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
-- grouped instead of joined: PostgreSQL may plan a join as nested loops, and a segment has thousands of members
INSERT INTO adapter_up (pod_id, node, fabric, port)
SELECT pod_id, max(node), %(fabric)s, port FROM (
    SELECT pod_id, node, port FROM fresh UNION ALL SELECT owner_id, NULL, port FROM member
) both_sides GROUP BY pod_id, port HAVING count(node) > 0 AND count(*) > count(node)
ORDER BY 1, 4 ON CONFLICT DO NOTHING;

-- name: adapters_up_of
SELECT * FROM adapter_up WHERE pod_id = %(pod_id)s ORDER BY fabric, port;

-- name: count_nodes_with_adapters_gone
-- Counts nodes of pods; an adapter whose link is down only counts if the link was up while the pod had the node.
SELECT count(DISTINCT h.node) AS number FROM unnest(%(nodes)s::text[], %(ports)s::text[]) AS g (node, port)
JOIN node_hold h ON h.node = g.node
WHERE NOT %(links)s OR EXISTS (
    SELECT FROM adapter_up u WHERE (u.pod_id, u.fabric, u.port) = (h.pod_id, %(fabric)s, g.port)
);

-- name: adapters_gone
-- After a gap in the readings, a clock that was set back, or an outage of the fabric, an adapter counts as gone from
-- now.
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
-- Nodes with an adapter that the last reading of its fabric didn't show, however long it has been missing. Links that
-- are down don't count: those of an idle node may be down until a guest has its adapters.
SELECT DISTINCT ON (node) node, name, fabric FROM adapter_gone WHERE seen_at > %(after)s AND NOT of_link ORDER BY node, fabric, port;

-- name: adapters_gone_now
SELECT * FROM adapter_gone ORDER BY fabric, port;

-- part: gone
-- Failing adapters of pods' segments. Only those of servers that are running count, since a server that is off takes
-- its adapters along, and only those with which the pod was READY before.
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
        -- it isn't known whose accelerator or adapter fails on a shared node
        (h.whole OR f.kind NOT IN ('adapter', 'check')) AND NOT h.spare
            AND coalesce(p.ordered ->> 'on_failure', '') = 'replace' AS replaces
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
    -- a drained node is sound: it doesn't fail, but leaves a pod that asks for it, unless the pod is released for it
    WHERE f.kind <> 'drain' OR NOT h.spare AND coalesce(p.ordered ->> 'on_failure', '') = 'replace'
        AND p.ordered ->> 'on_drain' IS NULL
    ORDER BY h.pod_id, h.node, f.rank, f.since
)

-- name: lock_failures
-- Two at the same time could lock the same rows in different orders.
SELECT pg_advisory_xact_lock(hashtext('weft.failures'));

-- name: refresh_failures
-- A failure that continues keeps its attempts and their result. One whose replacement is asked for only now becomes
-- due.
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
-- Failed checks of these codes. `confirmed`: the last document also reports the check of this part as failed, and
-- nothing else: a failure stays a problem until it is judged.
SELECT c.node, c.at, c.expected, p ->> 'code' AS code, (p ->> 'since')::timestamptz AS since,
    coalesce(p ->> 'judged', 'open') AS judged, (
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
-- Also claims a failure that is due in more than an hour: it was written before the clock was set back.
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
-- A replacement is under way until all servers that it creates were seen, or are no longer wanted. Of those older than
-- `since`, at most `most_stuck` of each project count against other projects.
WITH counted AS (
    -- count(*), which uses an index for each row; EXISTS may be planned as a scan of whole tables
    SELECT r.at > %(since)s AS fresh, p.wanted = 'present' AND (
        SELECT count(*) FROM resource s WHERE s.owner_id = r.pod_id AND s.kind = 'server' AND s.generation = r.generation
            AND s.expunged IS NULL AND s.state <> 'settled'
    ) > 0 AS waits, p.project_id, p.ordered #>> '{nodes,sharing}' = 'shared' AS shared
    FROM own_replacement r LEFT JOIN pod p ON p.id = r.pod_id WHERE r.at > %(kept)s
)
SELECT count(*) FILTER (WHERE fresh) AS in_an_hour,
    count(*) FILTER (WHERE fresh AND project_id = %(project_id)s) AS projects_in_an_hour,
    count(*) FILTER (WHERE fresh AND waits) + (SELECT coalesce(sum(stuck), 0) FROM (
        SELECT least(count(*), %(most_stuck)s) AS stuck FROM counted WHERE waits AND NOT fresh GROUP BY project_id
    ) each)::integer AS under_way,
    count(*) FILTER (WHERE waits AND project_id = %(project_id)s) AS projects_under_way,
    count(*) FILTER (WHERE shared AND project_id = %(project_id)s) AS projects_on_shared
FROM counted;

-- name: is_own_replacement
SELECT true AS own FROM own_replacement WHERE (pod_id, generation) = (%(pod_id)s, %(generation)s);

-- name: note_own_replacement
-- Also deletes the node's failure, since the pod no longer has the node.
WITH over AS (DELETE FROM node_failure WHERE (pod_id, node) = (%(pod_id)s, %(node)s))
INSERT INTO own_replacement (pod_id, generation, by_node, at) VALUES (%(pod_id)s, %(generation)s, %(by_node)s, %(at)s);

-- name: forget_own_replacements
-- Keeps the one that a pod is still being changed by: until that is done, it must not be taken for a user's change.
DELETE FROM own_replacement r WHERE at < %(before)s AND NOT EXISTS (
    SELECT FROM pod p WHERE (p.id, p.generation) = (r.pod_id, r.generation) AND p.changed_at IS NOT NULL
);

-- name: note_replaced
INSERT INTO node_history (node, at, type, message, by, pod_id, pod, project_id)
VALUES (%(node)s, %(at)s, 'replacement', %(message)s, %(by)s, %(pod_id)s, %(pod)s, %(project_id)s);

-- name: history_of_node
-- A node's history, newest first.
SELECT sequence, at, type, message, by, pod, project_id FROM node_history
WHERE node = %(node)s AND sequence < coalesce(%(before)s, 9223372036854775807) ORDER BY sequence DESC LIMIT %(limit)s;

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
-- Claims those of these clouds with machines that no worker is asking or has just asked. The caller then asks them for
-- all machines (`listing`), or for those that changed last. Also returns the time now.
INSERT INTO machine_look AS l (cloud, until)
SELECT cloud, now() + %(answer)s * interval '1 second' FROM unnest(%(clouds)s::text[]) AS c (cloud) ORDER BY 1
ON CONFLICT (cloud) DO UPDATE SET until = excluded.until WHERE l.until <= now()
RETURNING l.cloud, now() AS at, l.list_at <= now() AS listing;

-- name: machines_in_use
-- Whether a pod in use has one of these nodes as a member (as in wake_busy).
SELECT EXISTS (
    SELECT FROM node_hold h JOIN pod o ON o.id = h.pod_id
    WHERE h.node = ANY(%(nodes)s) AND h.withheld = '' AND h.leaving IS NULL AND NOT h.spare
        AND o.wanted = 'present' AND o.state IN ('READY', 'DEGRADED', 'VERIFYING', 'FAILED')
) AS used;

-- name: end_machine_look
-- Sets when the next look may begin (`again` after this one), and when it lists all machines (`every` after this one;
-- null: this one listed none). No row if another worker is asking by now (`answer`: as claimed): then what the caller
-- saw may be old. Also returns the time now.
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
-- Records that a machine was claimed after this cleaning. An older or known cleaning changes nothing: it comes from a
-- late worker, or a restored Ironic.
INSERT INTO machine_taken AS t (cloud, machine, ended) VALUES (%(cloud)s, %(machine)s, %(ended)s)
ON CONFLICT (cloud, machine) DO UPDATE SET ended = excluded.ended, at = now(), used = false
WHERE t.ended < excluded.ended;

-- name: use_machines
-- Records that machines were no longer as their cleaning left them when this was asked.
UPDATE machine_taken SET used = true
WHERE cloud = %(cloud)s AND machine = ANY(%(machines)s) AND NOT used AND at < %(asked)s;

-- name: parts_seen
-- Records the parts of a node: known ones were seen again, others begin a stay.
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

-- name: pods_touched
-- What operators read about pods that an outage would affect.
SELECT id, state, wanted, ordered ->> 'on_drain' AS on_drain FROM pod WHERE id = ANY(%(ids)s);

-- name: pods_to_place
-- Pods' rows like pod_by_id, without the graph in their plan.
SELECT
    @pod_fields, plan || '{"graph": {"resources": []}}' AS plan
FROM pod WHERE id = ANY(%(ids)s) AND plan IS NOT NULL;
