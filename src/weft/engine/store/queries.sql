-- Statements of weft.engine.store, by name. `%(x)s` are psycopg parameters.

-- name: lock_quarantine
SELECT revision FROM quarantine WHERE node = %(node)s FOR UPDATE;

-- name: clear_quarantine
-- By clearing a node that a pod is leaving, the operator confirms that nothing of the pod runs on it, unless the
-- request is refused.
WITH word AS (
    UPDATE node_hold SET cleared = true WHERE node = %(node)s AND leaving IS NOT NULL
        AND EXISTS (SELECT 1 FROM quarantine WHERE node = %(node)s)
), cleared AS (
    DELETE FROM quarantine WHERE node = %(node)s RETURNING node, reason
)
INSERT INTO node_history (node, at, type, message, by)
SELECT node, %(at)s, 'quarantine', node_message('NODE_CLEARED', jsonb_build_object('reason', reason)), %(by)s FROM cleared;

-- part: inner_host
-- Whether the pod has only weft's own servers, such as controllers, on a node on which it has slots: tenants read
-- nothing about their hosts. `h`: node and pod_id. Until a tenant's server there is written, the node counts as such a
-- host.
(NOT EXISTS (SELECT FROM node_hold m WHERE (m.node, m.pod_id) = (h.node, h.pod_id)) AND NOT EXISTS (
    SELECT FROM resource r WHERE r.owner_id = h.pod_id AND r.kind = 'server' AND r.document ->> 'node' = h.node
        AND coalesce(r.document ->> 'owner', 'tenant') = 'tenant'
))

-- name: count_queue
SELECT count(*) AS number FROM pod WHERE plan IS NULL AND state = 'PENDING' AND NOT fixed;

-- name: park_held
-- Parks a row that can't be read, with its reason and an alarm, and hands it back. It is tried again later, or at once
-- if it was woken meanwhile. `lands`: see write_held. No row: another worker holds it. `news`: whether this wasn't
-- reported before.
UPDATE owner SET parked = %(why)s, alarmed = true, worker = NULL, held_until = NULL,
    late_until = greatest(late_until, now() + %(lands)s::float8 * interval '1 second'),
    next_at = CASE WHEN woken > %(woken)s THEN now() ELSE now() + %(delay)s * interval '1 second' END
WHERE id = %(id)s AND token = %(token)s
RETURNING (SELECT old.parked IS DISTINCT FROM %(why)s FROM owner old WHERE old.id = %(id)s) AS news;

-- name: park_waiting
-- Like park_held, for a waiting order. No row: it has changed since it was read.
UPDATE pod SET parked = %(why)s, alarmed = true, next_at = now() + %(delay)s * interval '1 second'
WHERE id = %(id)s AND xmin::text = %(version)s
RETURNING (SELECT old.parked IS DISTINCT FROM %(why)s FROM pod old WHERE old.id = %(id)s) AS news;

-- name: leave_held
-- Hands back a row that only a newer weft can read, for its workers; place and failures stay. `lands`, no row, `news`:
-- see park_held.
UPDATE owner SET worker = NULL, held_until = NULL,
    late_until = greatest(late_until, now() + %(lands)s::float8 * interval '1 second'),
    left_by = coalesce(left_by, '{}') || jsonb_build_object(current_setting('weft.reader'),
        %(woken)s::bigint ||
        @left_until
    )
WHERE id = %(id)s AND token = %(token)s
RETURNING (SELECT old.left_by IS NULL FROM owner old WHERE old.id = %(id)s) AS news;

-- name: leave_waiting
-- Like leave_held, for a waiting order.
UPDATE pod SET left_by = coalesce(left_by, '{}') || jsonb_build_object(current_setting('weft.reader'),
    woken ||
    @left_until
    )
WHERE id = %(id)s AND xmin::text = %(version)s AND NOT
    @left_to_newer
    ;

-- name: count_left
-- Counts owners and orders that this version can't read, and leaves to a newer one.
SELECT count(*) AS number FROM owner WHERE left_by IS NOT NULL AND state <> 'RELEASED' AND
    @left_to_newer
    ;

-- name: newer_has_worked
-- Whether a newer weft has worked with this database, which first did after this version.
SELECT EXISTS (SELECT FROM version_seen v JOIN version_seen mine ON mine.reader = current_setting('weft.reader', true)
    WHERE v.first_seen > mine.first_seen) AS yes;

-- part: newer_worker
-- Whether a worker of a newer weft is alive, which first worked with this database after this version did.
EXISTS (SELECT FROM process_seen p JOIN version_seen v ON v.reader = p.reader
    JOIN version_seen mine ON mine.reader = current_setting('weft.reader', true)
    WHERE p.role = 'worker' AND v.first_seen > mine.first_seen
        AND p.seen_at > clock_timestamp() - %(seconds)s * interval '1 second')

-- name: newer_at_work
SELECT
    @newer_worker
    AS yes;

-- name: count_processes
-- Processes at work, by role and version.
SELECT role, version, count(*) AS number FROM process_seen
WHERE seen_at > clock_timestamp() - %(seconds)s * interval '1 second' GROUP BY role, version ORDER BY role, version;

-- name: count_unfinished
-- How many of these second halves of an upgrade aren't made yet.
SELECT count(*) AS number FROM unnest(%(halves)s::text[]) AS half (name)
WHERE NOT EXISTS (SELECT FROM migration m WHERE m.name = half.name);

-- name: late_waiting_pods
-- Waiting orders whose lease is over.
SELECT id FROM pod WHERE plan IS NULL AND state IN ('PENDING', 'FAILED') AND lease_end <= %(at)s;

-- name: warn_leases
-- Warns once of each lease that ends within an hour, or, if it is short, within its last tenth. Skips locked rows,
-- which stay due.
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
-- A failed pod is tried again where it failed, broken resources get all their attempts again, and a visit under way
-- starts over.
UPDATE pod SET alarmed = false, failures = 0, woken = woken + 1, next_at = now(), retries = retries + 1
WHERE id = %(id)s AND state = 'FAILED' AND wanted = 'present' RETURNING *;

-- part: listed
-- The columns that a list shows.
SELECT id, project_id, name, phase, state, reason, since, created_at, lease_end, nodes, fabric,
    (SELECT count(*) FROM node_failure f WHERE f.pod_id = pod.id AND pod.wanted = 'present') AS nodes_failing,
    segment, position, expected_start, parked,
    @left_to_newer
    AS "left"
FROM pod

-- part: not_replaced
-- Whether a node of the pod fails and couldn't be replaced as the order asks for.
EXISTS (SELECT FROM node_failure f WHERE f.pod_id = pod.id AND f.replaces AND f.why <> '""')

-- part: searched
-- Conditions and page of a search, after the last pod of the page before. `alarmed`: as in count_pods.
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
-- A page of live and recently released pods, after the last one of the page before, with only the columns of a list.
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
-- Like pods_of_project, for all projects.
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
-- Limits the time of each statement in the rest of this transaction.
SELECT set_config('statement_timeout', %(milliseconds)s, true);

-- name: searched_owners
-- Pods, networks and sites with exactly this value. With a project, only its own owners, found only by the tenant's own
-- resources, not by ports and servers of the site's project; other projects' resources aren't even read. Released
-- owners are found by their id, and by numbers that they still keep.
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

-- name: pod_to_show
-- A pod's row like pod_by_id, without the graph in its plan, and whether it has a receipt.
SELECT
    @pod_fields, plan || '{"graph": {"resources": []}}' AS plan,
    EXISTS (SELECT FROM receipt WHERE owner_id = pod.id) AS has_receipt,
    -- drained nodes that it has and isn't leaving, whole, in parts, or as hosts of its servers
    ARRAY(SELECT row_to_json(m) FROM (
        SELECT h.*,
            @inner_host AS inner_host,
            EXISTS (SELECT FROM node_hold s WHERE (s.node, s.pod_id) = (h.node, pod.id) AND s.spare) AS spare
        FROM (SELECT d.*, pod.id AS pod_id FROM drain d) h
        WHERE EXISTS (SELECT FROM node_hold o WHERE (o.node, o.pod_id) = (h.node, pod.id) AND o.leaving IS NULL)
            OR EXISTS (SELECT FROM number_hold n WHERE (n.space, n.owner_id) = ('host/' || h.node, pod.id))) m) AS drains,
    ARRAY(SELECT row_to_json(f) FROM node_failure f WHERE f.pod_id = pod.id) AS failures,
    -- checks that failed on its nodes, without the texts that machines wrote
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
-- Like resources_of, with only the columns that are shown.
SELECT key, kind, state, outside_id, reason, differences, facts, started_at, finished_at, document, owner_id, generation, expunged
FROM resource WHERE owner_id = %(owner_id)s ORDER BY position, key;

-- name: which_pod_by_id
SELECT id, project_id, state, changed_at IS NOT NULL AS changing,
    (SELECT coalesce(max(sequence), 0) FROM event WHERE owner_id = pod.id) AS last_event
FROM pod WHERE id = %(id)s;

-- name: which_pod
-- The live pod of that name, otherwise the one released last.
SELECT id, project_id, state, changed_at IS NOT NULL AS changing,
    (SELECT coalesce(max(sequence), 0) FROM event WHERE owner_id = pod.id) AS last_event
FROM pod WHERE project_id = %(project_id)s AND name = %(name)s
ORDER BY (state <> 'RELEASED') DESC, created_at DESC LIMIT 1;

-- name: which_pod_anywhere
-- For operators, who see all projects.
SELECT id, project_id, state, changed_at IS NOT NULL AS changing,
    (SELECT coalesce(max(sequence), 0) FROM event WHERE owner_id = pod.id) AS last_event
FROM pod WHERE name = %(name)s ORDER BY (state <> 'RELEASED') DESC, created_at DESC LIMIT 2;

-- name: live_pods
-- Pods that have, or may have, something outside: not the waiting ones.
SELECT * FROM pod WHERE state <> 'RELEASED' AND plan IS NOT NULL ORDER BY created_at, id;

-- name: homes
-- Where each pod is that has, or may have, something outside.
SELECT name, fabric, cloud, plan ->> 'flavor' AS flavor FROM pod WHERE state <> 'RELEASED' AND plan IS NOT NULL;

-- name: count_pods
-- Counts pods by state, with how long the oldest has been in it, and how many have an alarm or have exceeded the
-- state's limit: without workers nothing raises alarms. Released pods aren't counted, since their number only grows.
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
-- Also counts rows that are left to a newer weft of which no worker is alive, since nothing is done for them.
SELECT count(*) AS number FROM owner WHERE state <> 'RELEASED' AND (parked IS NOT NULL
    OR left_by IS NOT NULL AND
    @left_to_newer
    AND NOT
    @newer_worker
    );

-- name: release_pod
-- Only changes what is desired; the loop does the work. An order that waits, or failed before it had anything, ends at
-- once, since nothing of it is outside. A pod whose release was requested before is woken once more. `late`: only a
-- waiting order whose lease is over. `generation`: only a pod of this generation; null: any.
WITH it AS MATERIALIZED (
    SELECT id, coalesce(%(at)s::timestamptz, clock_timestamp()) AS at, state, wanted = 'present' AS asked,
        plan IS NULL AND state IN ('PENDING', 'FAILED') AS withdrawn
    FROM pod WHERE id = %(id)s AND (NOT %(late)s OR plan IS NULL AND state IN ('PENDING', 'FAILED') AND lease_end <= %(at)s)
        AND generation = coalesce(%(generation)s, generation)
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

-- name: request_repair
-- An operator requests the repair of everything of an owner, servers included.
UPDATE owner SET repair = true, woken = woken + 1, next_at = now()
WHERE id = %(id)s AND wanted = 'present' AND state <> 'RELEASED';

-- name: owners_under_repair
SELECT id FROM owner WHERE repair AND state <> 'RELEASED';

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

-- name: lock_present
SELECT id FROM owner WHERE id = %(id)s AND wanted = 'present' FOR UPDATE;

-- name: begin_act
-- Notes that an action on a server may be under way; call it with the owner's row locked. No row: the server is no
-- longer wanted. Each request has a time of its own, by which end_act takes back only that request's note.
WITH it AS MATERIALIZED (SELECT id, acts_until FROM owner WHERE id = %(id)s)
UPDATE owner o SET acts_until = greatest(clock_timestamp() + %(late)s * interval '1 second',
    it.acts_until + interval '1 microsecond')
FROM it WHERE o.id = it.id
    AND EXISTS (SELECT FROM resource r WHERE r.owner_id = o.id AND r.key = %(key)s AND r.expunged IS NULL)
RETURNING it.acts_until AS before, o.acts_until AS until;

-- name: end_act
UPDATE owner SET acts_until = %(before)s WHERE id = %(id)s AND acts_until = %(until)s;

-- name: count_webhooks
-- Counts webhooks by state, as `weft webhook list` shows it.
SELECT count(*) FILTER (WHERE disabled_at IS NOT NULL) AS disabled,
    count(*) FILTER (WHERE disabled_at IS NULL AND failing_since IS NOT NULL) AS failing,
    count(*) FILTER (WHERE disabled_at IS NULL AND failing_since IS NULL) AS active FROM webhook;

-- name: claim_owner
-- Claims an owner out of turn, if no worker holds it; the token increases as in claim_work.
UPDATE owner SET worker = %(worker)s, token = token + 1, held_until = now() + %(hold)s * interval '1 second',
    late_until = CASE WHEN held_until IS NULL THEN late_until
        ELSE greatest(late_until, held_until + %(late)s * interval '1 second') END
WHERE id = %(id)s AND state <> 'RELEASED' AND site IS NOT NULL AND (held_until IS NULL OR held_until < now())
RETURNING kind;

-- name: sweep
SELECT next_at, ended_at, unread FROM sweep;

-- name: count_traces
SELECT count(*) FILTER (WHERE gone_at IS NULL) AS open, count(*) FILTER (WHERE gone_at IS NOT NULL) AS gone FROM trace;

-- name: retention
SELECT next_at, ended_at, removed FROM retention;

-- name: nodes_of_pods
SELECT node, whole FROM node_hold;

-- name: count_tenant_ports
SELECT count(*) AS networks, coalesce(sum(t.ports_in), 0) AS ports_in, coalesce(sum(t.waiting), 0) AS waiting,
    coalesce(sum(t.out), 0) AS out, extract(epoch FROM now() - min(t.waits_since))::float8 AS oldest,
    extract(epoch FROM now() - min(t.read_at))::float8 AS unread
FROM tenant_network t JOIN ONLY owner o ON o.id = t.owner_id WHERE o.state <> 'RELEASED' AND o.wanted = 'present';

-- name: fabrics_seen
SELECT fabric, known, problems, port_errors, read_at, extract(epoch FROM now() - read_at)::float8 AS age
FROM fabric_status ORDER BY fabric;

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

-- name: impossible_states
-- States that the schema permits but weft never writes: the code of the doctor's finding, the number of such rows, and
-- some of them. `units`: of the active site; null: not known.
WITH found (code, what) AS (
    SELECT 'RELEASED_UNSIGNED', 'pod ' || p.id FROM pod p
    WHERE p.state = 'RELEASED' AND p.plan IS NOT NULL AND NOT EXISTS (SELECT FROM receipt r WHERE r.owner_id = p.id)
  UNION ALL
    SELECT 'HOLDS_UNOWNED', 'node ' || h.node FROM node_hold h
    WHERE NOT EXISTS (SELECT FROM pod p WHERE p.id = h.pod_id AND p.state <> 'RELEASED')
  UNION ALL
    SELECT 'HOLDS_UNOWNED', h.plane || ' subnet ' || h.cidr FROM subnet_hold h
    WHERE NOT EXISTS (SELECT FROM owner o WHERE o.id = h.owner_id AND o.state <> 'RELEASED')
  UNION ALL
    SELECT 'HOLDS_UNOWNED', 'number ' || h.number || ' of ' || h.space FROM number_hold h
    WHERE NOT EXISTS (SELECT FROM owner o WHERE o.id = h.owner_id)
  UNION ALL
    SELECT 'PODS_HOLD_NOTHING', 'pod ' || p.id FROM pod p
    WHERE p.plan IS NOT NULL AND p.phase IN ('building', 'serving') AND p.wanted = 'present'
        AND NOT EXISTS (SELECT FROM node_hold h WHERE h.pod_id = p.id)
  UNION ALL
    SELECT 'BOOKINGS_STRAY', 'booking of pod ' || b.pod_id FROM booking b
    WHERE NOT EXISTS (SELECT FROM pod p WHERE p.id = b.pod_id AND p.plan IS NULL AND p.state <> 'RELEASED')
  UNION ALL
    SELECT 'REPLACEMENTS_STRAY', 'generation ' || r.generation || ' of pod ' || r.pod_id FROM own_replacement r
    WHERE NOT EXISTS (SELECT FROM pod p WHERE p.id = r.pod_id AND p.generation >= r.generation)
  UNION ALL
    SELECT 'REPLACEMENTS_STRAY', 'failure of node ' || f.node || ' of pod ' || f.pod_id FROM node_failure f
    WHERE NOT EXISTS (SELECT FROM pod p WHERE p.id = f.pod_id)
  UNION ALL
    SELECT 'RESOURCES_UNOWNED', r.kind || ' ' || r.key || ' of ' || r.owner_id FROM resource r
    WHERE NOT EXISTS (SELECT FROM owner o WHERE o.id = r.owner_id)
  UNION ALL
    SELECT 'STOPS_OUTSIDE_SITE', s.what || ' of node ' || s.node FROM (
        SELECT 'quarantine' AS what, node FROM quarantine
        UNION ALL SELECT 'drain', node FROM drain UNION ALL SELECT 'hold', node FROM acceptance
    ) s WHERE s.node <> ALL(%(units)s::text[])
)
SELECT code, count(*) AS number, (array_agg(DISTINCT what ORDER BY what))[1:5] AS some FROM found GROUP BY code ORDER BY code;

-- name: secret
SELECT value, sealed FROM secret WHERE name = %(name)s;

-- name: insert_secret
-- If two first starts run at once, one wins, and both read the winner's secret.
INSERT INTO secret (name, value, sealed) VALUES (%(name)s, %(value)s, %(sealed)s) ON CONFLICT (name) DO NOTHING;

-- name: secrets
SELECT name, value, sealed FROM secret ORDER BY name;

-- name: link_users
-- Owners with segments on a fabric. The segment's document is text, which is the key of a cache.
SELECT r.owner_id::text AS id, p.kind, p.name, p.project_id, r.document::text
FROM resource r JOIN owner p ON p.id = r.owner_id
WHERE r.kind = 'segment' AND r.document ->> 'where' = %(fabric)s AND r.outside_id IS NOT NULL
  AND r.state <> 'ABSENT' AND p.state <> 'RELEASED'
ORDER BY r.owner_id, r.key;

-- name: insert_web_session
INSERT INTO web_session (digest, sealed, user_id, created_at, expires_at)
VALUES (%(digest)s, %(sealed)s, %(user)s, %(at)s, %(expires)s);

-- name: limit_web_sessions
-- Deletes all but a user's newest sessions.
DELETE FROM web_session WHERE digest IN (
    SELECT digest FROM web_session WHERE user_id = %(user)s ORDER BY created_at DESC, digest OFFSET %(most)s
);

-- name: web_session
SELECT sealed, expires_at FROM web_session WHERE digest = %(digest)s AND expires_at > coalesce(%(at)s, now());

-- name: web_sessions_there
-- Those of the streams' sessions that haven't ended.
SELECT digest FROM web_session WHERE digest = ANY(%(digests)s) AND expires_at > coalesce(%(at)s, now());

-- name: delete_web_session
DELETE FROM web_session WHERE digest = %(digest)s;

-- name: lock_bandwidth
-- One report at a time of a pod or of nodes, since the next one is compared with it.
SELECT pg_advisory_xact_lock(hashtextextended('bandwidth ' || %(subject)s, 0));

-- name: bandwidth_of_pod
-- The newest certificate of a pod.
SELECT id, at, document FROM bandwidth_certificate WHERE pod_id = %(pod_id)s ORDER BY at DESC LIMIT 1;

-- name: bandwidth_of_nodes
-- The operators' newest certificate of exactly these nodes.
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
-- Keeps certificates of nodes that are the last one (as in bandwidth_of_node) or the newest one of any of their nodes,
-- and others for as long as the site says.
DELETE FROM bandwidth_certificate c WHERE pod_id IS NULL AND at < %(before)s AND NOT EXISTS (
    SELECT FROM jsonb_object_keys(c.results) node WHERE NOT EXISTS (
        SELECT FROM bandwidth_certificate n WHERE n.pod_id IS NULL AND n.at > c.at AND n.results ? node
            AND coalesce(n.document #>> '{certificate,began}', '-infinity')::timestamptz
                >= coalesce(c.document #>> '{certificate,began}', '-infinity')::timestamptz));

-- name: note_bandwidth
-- Writes a test that operators reported into the history of each of its nodes.
INSERT INTO node_history (node, at, type, message, by)
SELECT key, %(at)s, 'check', node_message('NODE_BANDWIDTH', jsonb_build_object('result', value)), %(by)s
FROM jsonb_each_text(%(results)s) ORDER BY key;

-- name: keep_agent_certificates
-- Makes one row for each agent of the site, and deletes those of other agents. weft's own certificates, known by their
-- hosts, stay.
WITH wanted AS (
    SELECT unnest(%(fabrics)s::text[]) AS fabric, unnest(%(agents)s::text[]) AS agent
), gone AS (
    DELETE FROM agent_certificate c WHERE kind = 'agent'
        AND NOT EXISTS (SELECT FROM wanted w WHERE w.fabric = c.fabric AND w.agent = c.agent)
)
INSERT INTO agent_certificate (fabric, kind, agent) SELECT fabric, 'agent', agent FROM wanted ORDER BY fabric, agent
ON CONFLICT DO NOTHING;

-- name: claim_agent_certificates
-- Claims certificates of agents that are due; no other worker claims them for `hold`.
UPDATE agent_certificate c SET next_at = now() + %(hold)s FROM (
    SELECT fabric, kind, agent FROM agent_certificate WHERE kind = 'agent' AND next_at <= now()
    ORDER BY next_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
) due WHERE c.fabric = due.fabric AND c.kind = due.kind AND c.agent = due.agent RETURNING c.*;

-- name: own_certificate
-- The row of one of weft's own certificates, made if it is missing.
INSERT INTO agent_certificate (fabric, kind, agent) VALUES (%(fabric)s, 'own', %(agent)s)
ON CONFLICT (fabric, kind, agent) DO UPDATE SET next_at = agent_certificate.next_at RETURNING *;

-- name: note_certificate_issue
-- Notes a certificate before it is sent. No row: another one was issued less than `least` ago, by any process.
WITH mine AS (
    UPDATE agent_certificate SET issued_at = now() WHERE fabric = %(fabric)s AND kind = %(kind)s AND agent = %(agent)s
        AND (issued_at IS NULL OR issued_at <= now() - %(least)s) RETURNING fabric, kind, agent
)
INSERT INTO issued_certificate (serial, fabric, kind, agent, not_after)
SELECT %(serial)s, fabric, kind, agent, %(not_after)s FROM mine RETURNING serial;

-- name: note_certificate
-- Writes what was read of a certificate, or why it wasn't (`serial` null: what was read before stays).
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
-- Deletes rows for hosts that weft no longer runs on, and for files that the site no longer names: workers check theirs
-- each minute, and put the next reading off by six hours at most.
DELETE FROM agent_certificate WHERE kind = 'own' AND next_at < now() - interval '2 days';
