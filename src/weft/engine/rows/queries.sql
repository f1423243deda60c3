-- Statements of weft.engine.rows, by name. `%(x)s` are psycopg parameters.

-- name: insert_site
-- A new generation of the site.
INSERT INTO site (name, document, activated_at, activated_by)
VALUES (%(name)s, %(document)s, %(at)s, %(by)s) RETURNING generation;

-- name: lock_site
-- One change of the site at a time; readers don't wait.
LOCK TABLE site IN SHARE ROW EXCLUSIVE MODE;

-- name: hold_site
-- Keeps the site unchanged until the transaction ends; any number of transactions may hold it.
LOCK TABLE site IN SHARE MODE;

-- name: current_site
-- The newest generation.
SELECT generation, name, document, activated_at, activated_by FROM site ORDER BY generation DESC LIMIT 1;

-- name: current_site_generation
-- Identifies the generation, to detect a stale cache. The number alone isn't enough: after an older dump was restored,
-- the same number can be another document.
SELECT generation, activated_at FROM site ORDER BY generation DESC LIMIT 1;

-- name: site_parts
-- The contents of parts.
SELECT digest, body FROM site_part WHERE digest = ANY(%(digests)s);

-- name: site_part_sizes
SELECT count(*) AS parts, coalesce(sum(size), 0) AS bytes FROM site_part WHERE digest = ANY(%(digests)s);

-- name: touch_site_parts
-- Keeps existing parts as if they had just been sent. All callers lock the rows in the same order, which prevents
-- deadlocks.
WITH mine AS (SELECT digest FROM site_part WHERE digest = ANY(%(digests)s) ORDER BY digest FOR UPDATE)
UPDATE site_part p SET touched_at = %(at)s FROM mine WHERE p.digest = mine.digest RETURNING p.digest;

-- name: name_site_parts
-- Binds these parts to a generation; returns those that exist.
WITH mine AS (SELECT digest FROM site_part WHERE digest = ANY(%(digests)s) ORDER BY digest FOR UPDATE)
UPDATE site_part p SET generation = %(generation)s FROM mine WHERE p.digest = mine.digest RETURNING p.digest;

-- name: insert_site_part
-- An existing part is kept as if it had just been sent.
INSERT INTO site_part (digest, body, size, generation, touched_at)
VALUES (%(digest)s, %(body)s, %(size)s, %(generation)s, %(at)s)
ON CONFLICT (digest) DO UPDATE SET touched_at = excluded.touched_at,
    generation = coalesce(excluded.generation, site_part.generation);

-- name: count_loose_parts
-- Counts parts that were sent and that no generation uses yet.
SELECT count(*) AS parts, coalesce(sum(size), 0) AS bytes FROM site_part WHERE generation IS NULL;

-- name: prune_site_parts
-- Deletes parts that were sent long ago and never used, and those that only removed generations used, in batches and
-- without locked ones.
DELETE FROM site_part WHERE digest IN (
    SELECT digest FROM site_part
    WHERE generation IS NULL AND touched_at < %(before)s
       OR generation < (SELECT min(generation) FROM site) AND touched_at < %(before)s
    ORDER BY digest LIMIT %(limit)s FOR UPDATE SKIP LOCKED);

-- name: holds_of
-- What a node is held for, with a lock.
SELECT node, what, since, held_by, cause, tests, tests_from, revision FROM acceptance WHERE node = %(node)s ORDER BY since, what FOR UPDATE;

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
    ON CONFLICT (node, what) DO UPDATE SET cause = excluded.cause, pod_id = excluded.pod_id, project_id = excluded.project_id,
        revision = nextval('revision')
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

-- name: forget_attempts
UPDATE resource SET attempts = 0 WHERE owner_id = %(owner_id)s AND state <> 'settled';
-- name: owners_released_since
-- Owners other than pods, the last released first.
SELECT * FROM ONLY owner WHERE state = 'RELEASED' AND released_at >= %(since)s
    AND (released_at, id) < (%(at)s::timestamptz, %(last)s::uuid)
ORDER BY released_at DESC, id DESC LIMIT %(limit)s;

-- name: released_owners_with_numbers
-- Like released_pods_with_numbers, for owners other than pods.
SELECT * FROM ONLY owner WHERE state = 'RELEASED'
    AND id IN (SELECT owner_id FROM number_hold) AND (released_at, id) > (%(at)s::timestamptz, %(last)s::uuid)
ORDER BY released_at, id LIMIT %(limit)s;

-- name: wake_owner
UPDATE owner SET woken = woken + 1, next_at = now() WHERE id = %(id)s AND state <> 'RELEASED';

-- name: set_owner
-- Writes phase and conditions, and their summary: the state, its reason, and since when.
UPDATE owner SET phase = %(phase)s, conditions = %(conditions)s, state = %(state)s, reason = %(reason)s,
    since = CASE WHEN state = %(state)s THEN since ELSE %(at)s END,
    alarmed = alarmed AND state = %(state)s
WHERE id = %(id)s;

-- name: insert_event
-- Writers of an owner's events hold its row lock until they commit: a follower asks for events after the last one, and
-- would miss one that commits after a later one.
WITH it AS MATERIALIZED (SELECT id FROM owner WHERE id = %(owner_id)s FOR UPDATE)
INSERT INTO event (owner_id, at, type, message, key)
SELECT id, %(at)s, %(type)s, %(message)s, %(key)s FROM it;

-- name: events_of
SELECT sequence, at, type, message, key FROM event
WHERE owner_id = %(owner_id)s AND sequence > %(after)s ORDER BY sequence LIMIT %(limit)s;

-- name: newest_events_of
SELECT * FROM (
    SELECT sequence, at, type, message, key FROM event
    WHERE owner_id = %(owner_id)s AND sequence > %(after)s ORDER BY sequence DESC LIMIT %(limit)s
) newest ORDER BY sequence;

-- name: split_use
-- Splits current holds of nodes whose accelerators change: they count with the old ones until now, and then with the
-- new ones.
WITH ended AS (
    UPDATE use_span u SET until = greatest(u.since, now()), type = g.type, accelerators = g.accelerators
    FROM unnest(%(nodes)s::text[], %(types)s::text[], %(counts)s::integer[]) g (node, type, accelerators)
    WHERE u.node = g.node AND u.until IS NULL RETURNING u.*
)
INSERT INTO use_span (node, pod_id, pod, project_id, server, devices, spare, since)
SELECT node, pod_id, pod, project_id, server, devices, spare, until FROM ended ORDER BY node, pod_id;

-- name: describe_use
-- Ended holds of such nodes keep the accelerators that the nodes had.
UPDATE use_span u SET type = g.type, accelerators = g.accelerators
FROM unnest(%(nodes)s::text[], %(types)s::text[], %(counts)s::integer[]) g (node, type, accelerators)
WHERE u.node = g.node AND u.type IS NULL AND u.until IS NOT NULL;

-- name: insert_audit_log
-- With `counted`, a similar entry within the hour only increases the count of the existing row, which then describes
-- the last one.
INSERT INTO audit_log (at, last_at, user_id, user_name, user_domain_id, project_id, project_domain_id, action, subject,
    address, user_agent, request_id, outcome, refused_in)
VALUES (now(), now(), %(user_id)s, %(user_name)s, %(user_domain_id)s, %(project_id)s, %(project_domain_id)s, %(action)s,
    %(subject)s, %(address)s, %(user_agent)s, %(request_id)s, %(outcome)s,
    CASE WHEN %(counted)s THEN date_trunc('hour', now()) END)
ON CONFLICT (user_id, coalesce(project_id, ''), action, refused_in) WHERE refused_in IS NOT NULL DO UPDATE
SET times = audit_log.times + 1, last_at = excluded.last_at, subject = excluded.subject, address = excluded.address,
    user_agent = excluded.user_agent, request_id = excluded.request_id, outcome = excluded.outcome;

-- name: hold_audit_log
-- Once this has the lock, every writer before it has committed.
LOCK TABLE audit_log IN SHARE MODE;

-- name: last_in_audit_log
SELECT coalesce(max(sequence), 0) AS last FROM audit_log;

-- name: audit_log
-- Newest first, up to `last`: no new entries can appear before that one.
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

-- name: notify
-- Notifies followers of a pod's event. Workers are woken by triggers on the tables that make work due.
SELECT pg_notify('weft_event', %(owner_id)s);

-- name: segments_wanted
-- Segments of a fabric that were created for live pods and whose removal wasn't requested. As text, which is the key of
-- a cache, since nearly all of them were read before.
SELECT r.owner_id::text, r.key, r.document::text, p.site, p.kind AS owner_kind
FROM resource r JOIN owner p ON p.id = r.owner_id
WHERE r.kind = 'segment' AND r.document ->> 'where' = %(fabric)s AND r.outside_id IS NOT NULL
  AND r.state = ANY(%(states)s) AND p.wanted = 'present' AND p.state <> 'RELEASED';

-- name: segment_ever
-- A pod's plan, and the ports, in the segment with this key, of nodes that are being freed.
SELECT p.plan, ARRAY(SELECT h.leaving_ports -> %(key)s FROM node_hold h
    WHERE h.pod_id = p.id AND h.leaving_ports ? %(key)s) AS leaving
FROM pod p WHERE p.id = %(id)s AND p.plan IS NOT NULL;

-- name: insert_segment_event
-- Writes an event about a pod's segment that was found outside the pod's own visits.
WITH it AS MATERIALIZED (SELECT id FROM owner WHERE id = %(owner_id)s FOR UPDATE)
INSERT INTO event (owner_id, at, type, message, key)
SELECT id, now(), 'repair', %(message)s, (SELECT key FROM resource WHERE owner_id = it.id AND kind = 'segment' LIMIT 1) FROM it;

-- name: stale_numbers
SELECT fabric, manager, number, owner_id, reason, since FROM stale_number WHERE fabric = %(fabric)s ORDER BY since;

-- name: segments_of
-- Segments of these owners. `over`: seen gone after the release was requested, which never changes again. About the
-- list see resources_of.
SELECT r.owner_id, r.key, p.kind AS owner_kind, p.wanted = 'absent' AND (p.state = 'RELEASED' OR r.state = 'absent') AS over
FROM resource r JOIN owner p ON p.id = r.owner_id WHERE r.kind = 'segment' AND p.id = ANY(ARRAY(SELECT unnest(%(owners)s::uuid[])));

-- name: pods_released_since
-- A page of released pods that had something outside, the last released first, after the pod of `at` and `last` (time
-- and id).
SELECT * FROM pod WHERE state = 'RELEASED' AND plan IS NOT NULL AND released_at >= %(since)s
    AND (released_at, id) < (%(at)s::timestamptz, %(last)s::uuid)
ORDER BY released_at DESC, id DESC LIMIT %(limit)s;

-- name: released_pods_with_numbers
-- Abandoned pods whose segment, VLAN or places have not been seen free since.
SELECT * FROM pod WHERE state = 'RELEASED' AND plan IS NOT NULL
    AND id IN (SELECT owner_id FROM number_hold) AND (released_at, id) > (%(at)s::timestamptz, %(last)s::uuid)
ORDER BY released_at, id LIMIT %(limit)s;

-- name: insert_trace
-- Returns a row only if the trace is new, or was gone in between. `most`: only if the owner has fewer.
INSERT INTO trace (owner_id, kind, place, subject, what, others, found_at)
SELECT %(owner_id)s, %(kind)s, %(place)s, %(subject)s, %(what)s, %(others)s, %(at)s
WHERE %(most)s::bigint IS NULL OR (SELECT count(*) FROM trace WHERE owner_id = %(owner_id)s) < %(most)s::bigint
ON CONFLICT (owner_id, kind, place, subject) DO UPDATE SET what = excluded.what, found_at = excluded.found_at,
    gone_at = NULL WHERE trace.gone_at IS NOT NULL
RETURNING id;

-- name: end_trace
UPDATE trace SET gone_at = %(at)s WHERE id = %(id)s AND gone_at IS NULL;

-- name: traces
-- Traces that still exist, and those found since a time.
SELECT t.id, t.owner_id, t.kind, t.place, t.subject, t.what, t.others, t.found_at, t.gone_at, p.name AS pod, p.kind AS owner_kind
FROM trace t JOIN owner p ON p.id = t.owner_id WHERE t.gone_at IS NULL OR t.found_at >= %(since)s
ORDER BY t.gone_at IS NOT NULL, t.id DESC LIMIT %(limit)s;

-- name: open_traces
-- The next page of traces that still exist, after an id.
SELECT id, owner_id, kind, place, subject, what, others, found_at, gone_at FROM trace
WHERE gone_at IS NULL AND id > %(after)s ORDER BY id LIMIT %(limit)s;

-- name: traces_of
SELECT kind, place AS where, subject, what AS found, found_at, gone_at FROM trace
WHERE owner_id = %(owner_id)s AND NOT others ORDER BY id LIMIT 1000;

-- name: is_behind
-- Whether an operator must accept the database, because `weft restore` filled it or a cloud remembers more.
SELECT WHERE EXISTS (SELECT FROM restored) OR EXISTS (SELECT FROM epoch_behind);

-- name: served_networks
-- Documents of all tenants' networks that aren't being released.
SELECT t.document FROM tenant_network t JOIN ONLY owner o ON o.id = t.owner_id
WHERE o.state <> 'RELEASED' AND o.wanted = 'present' ORDER BY t.network_id;

-- name: list_tenant_networks
-- Live networks, by id; all projects' if the project is null.
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
-- Live networks of that id or name.
SELECT o.id, o.project_id, o.state, o.reason, o.since, t.*
FROM tenant_network t JOIN ONLY owner o ON o.id = t.owner_id
WHERE o.state <> 'RELEASED' AND (%(project_id)s::text IS NULL OR o.project_id = %(project_id)s)
  AND (t.network_id = %(name)s OR t.document ->> 'name' = %(name)s) ORDER BY t.network_id;

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
-- The pod of an order that was sent before with this key, and whether its claim was checked.
SELECT id, plan IS NULL OR token > 0 OR next_at <= now() AS confirmed FROM pod WHERE id = %(id)s;

-- name: bandwidth_of_node
-- The operators' certificate that includes a node and whose test began last.
SELECT at, results ->> %(node)s AS result, (document #>> '{certificate,began}')::timestamptz AS began, document FROM bandwidth_certificate
WHERE pod_id IS NULL AND results ? %(node)s ORDER BY began DESC NULLS LAST, at DESC LIMIT 1;

-- name: kept_machines
SELECT node, parts FROM kept_machine;

-- name: keep_machine
INSERT INTO kept_machine (node, parts) VALUES (%(node)s, %(parts)s) ON CONFLICT (node) DO UPDATE SET parts = excluded.parts;

-- name: forget_machines
-- Deletes all machines but these: the others are in the site, or may be assigned.
DELETE FROM kept_machine WHERE node <> ALL(%(nodes)s);
