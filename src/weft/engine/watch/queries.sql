-- Statements of weft.engine.watch, by name. `%(x)s` are psycopg parameters.

-- name: mark_capacity_changes
-- Changes from before the last mark may be removed from now on; the next mark is set half an hour later.
UPDATE capacity_log SET below = least(mark, pg_snapshot_xmin(pg_current_snapshot())),
    mark = pg_snapshot_xmin(pg_current_snapshot()), marked_at = now()
WHERE marked_at < now() - interval '30 minutes' OR mark > pg_snapshot_xmax(pg_current_snapshot());

-- name: prune_capacity_changes
-- Deletes changes below the mark, and those from a copy of another server's database, whose transactions don't exist
-- here.
DELETE FROM capacity_change WHERE ctid IN (
    SELECT c.ctid FROM capacity_change c, capacity_log l
    WHERE c.xact < l.below OR c.xact > pg_snapshot_xmax(pg_current_snapshot()) LIMIT %(limit)s);

-- name: prune_node_checks
-- Deletes documents of nodes that stopped reporting long ago. Failed checks stay: otherwise the node would get orders
-- again.
DELETE FROM node_check WHERE node IN (
    SELECT node FROM node_check WHERE at < %(before)s AND NOT problems @> '[{"status": "failed"}]' ORDER BY at LIMIT %(limit)s);

-- name: prune_node_history
DELETE FROM node_history WHERE (node, sequence) IN (
    SELECT node, sequence FROM node_history WHERE at < %(before)s ORDER BY at LIMIT %(limit)s);

-- name: look_at_owners
-- Like which_pod_by_id, for all followed pods and other owners that had an event. About the list see resources_of.
SELECT id, project_id, state, changed_at IS NOT NULL AS changing,
    (SELECT coalesce(max(sequence), 0) FROM event WHERE owner_id = owner.id) AS last_event
FROM owner WHERE id = ANY(ARRAY(SELECT unnest(%(ids)s::uuid[])));

-- name: take_boot_looks
-- Claims those of these clouds in which servers boot and that no worker is asking or has just asked; the caller then
-- asks them. Also returns when the last answered query was sent, the time now, and from which age on servers of a flavor
-- may have booted.
WITH turn AS MATERIALIZED (
    SELECT cloud FROM unnest(%(clouds)s::text[]) AS c (cloud)
    WHERE NOT EXISTS (SELECT FROM boot_look l WHERE l.cloud = c.cloud AND l.until > now())
)
INSERT INTO boot_look AS b (cloud, until)
SELECT turn.cloud, now() + %(answer)s * interval '1 second' FROM turn CROSS JOIN LATERAL (
    -- The first one found is enough; it is searched pod by pod, and only if it is the caller's turn.
    SELECT FROM pod p CROSS JOIN LATERAL (
        SELECT FROM resource r WHERE r.owner_id = p.id AND r.kind = ANY(%(kinds)s) AND r.state = 'pending'
            AND r.since > now() - %(longest)s * interval '1 second' AND r.document ->> 'where' = turn.cloud LIMIT 1
    ) server
    WHERE p.state <> 'RELEASED' AND p.wanted = 'present' AND (p.state <> 'READY' OR p.repair OR p.changed_at IS NOT NULL)
    ORDER BY p.next_at LIMIT 1
) booting ORDER BY turn.cloud
ON CONFLICT (cloud) DO UPDATE SET until = excluded.until WHERE b.until <= now()
RETURNING b.cloud, b.answered, b.earliest, now() AS at;

-- name: boot_look_is_due
-- Whether any of a cloud's booting servers may have booted, or failed, since the last query: it was requested `soon` seconds
-- ago, without a query since then; or `visit` seconds ago, without one since it was as old; or is as old as one of its
-- flavor must be, and the last query is some time ago (`every` seconds, for each `growth` seconds of its age).
SELECT EXISTS (
    SELECT FROM boot_look l, pod p JOIN resource r ON r.owner_id = p.id, LATERAL (
        SELECT extract(epoch FROM now() - r.since) AS age, extract(epoch FROM now() - l.answered) AS ago,
            coalesce((l.earliest ->> (r.document -> 'spec' ->> 'flavor'))::float8, 0) AS earliest
    ) it
    WHERE l.cloud = %(cloud)s AND r.document ->> 'where' = l.cloud
        AND p.state <> 'RELEASED' AND p.wanted = 'present' AND (p.state <> 'READY' OR p.repair OR p.changed_at IS NOT NULL)
        AND r.kind = ANY(%(kinds)s) AND r.state = 'pending' AND r.since > now() - %(longest)s * interval '1 second'
        AND (it.ago IS NULL OR (it.age >= %(soon)s AND it.ago >= it.age)
            OR (it.age >= %(visit)s AND it.age - it.ago < %(visit)s)
            OR ((it.earliest <= 2 * %(soon)s OR it.age >= it.earliest)
                AND (it.age <= %(growth)s OR it.ago >= %(every)s * least(%(rarest)s, it.age / %(growth)s))))
) AS due;

-- name: awaited_servers
-- Ids of a cloud's booting servers, for clouds that can't list servers by their change.
SELECT r.outside_id AS id FROM pod p JOIN resource r ON r.owner_id = p.id
WHERE p.state <> 'RELEASED' AND p.wanted = 'present' AND (p.state <> 'READY' OR p.repair OR p.changed_at IS NOT NULL)
    AND r.kind = ANY(%(kinds)s) AND r.state = 'pending' AND r.since > now() - %(longest)s * interval '1 second'
    AND r.document ->> 'where' = %(cloud)s AND r.outside_id <> '';

-- name: end_boot_look
-- The next query may be sent `every` seconds after this one, unless another worker is asking by now (`answer`: as
-- claimed). `answered`: when the query was sent; null: it wasn't answered. `earliest`: what was learned of flavors.
UPDATE boot_look SET answered = greatest(answered, %(answered)s::timestamptz), earliest = earliest || %(earliest)s::jsonb,
    until = CASE WHEN until = %(asked)s::timestamptz + %(answer)s * interval '1 second'
        THEN %(asked)s::timestamptz + %(every)s * interval '1 second' ELSE until END
WHERE cloud = %(cloud)s;

-- name: wake_built
-- Wakes pods that wait for these servers, unless they are due anyway or wait after a failure, and notifies their
-- followers. A pod with other servers that still boot is due in `together` seconds, when more will have booted. Skips
-- locked rows: the next answer has their servers again. Returns of each whether others still boot, their flavor, and how
-- old the youngest was at `before`, when the query before this one was sent.
WITH it AS MATERIALIZED (
    SELECT p.id, others.boot, others.flavor, others.age FROM pod p, LATERAL (
        SELECT bool_or(r.outside_id <> ALL(%(servers)s)) AS boot, min(r.document -> 'spec' ->> 'flavor') AS flavor,
            extract(epoch FROM %(before)s::timestamptz - max(r.since))::float8 AS age
        FROM resource r WHERE r.owner_id = p.id AND r.kind = ANY(%(kinds)s) AND r.state = 'pending'
    ) others
    WHERE p.state <> 'RELEASED' AND p.wanted = 'present' AND (p.state <> 'READY' OR p.repair OR p.changed_at IS NOT NULL)
        AND p.next_at > now() + CASE WHEN others.boot THEN %(together)s ELSE 0 END * interval '1 second'
        AND p.failures = 0 AND EXISTS (
            SELECT FROM resource r WHERE r.owner_id = p.id AND r.kind = ANY(%(kinds)s) AND r.state = 'pending'
                AND r.outside_id = ANY(%(servers)s))
    FOR UPDATE OF p SKIP LOCKED
), woken AS (
    -- a visit under way may have read the servers earlier; it is only repeated for the last ones
    UPDATE pod p SET woken = woken + CASE WHEN it.boot THEN 0 ELSE 1 END,
        next_at = now() + CASE WHEN it.boot THEN %(together)s ELSE 0 END * interval '1 second'
    FROM it WHERE p.id = it.id
)
SELECT pg_notify('weft_event', id::text), boot, flavor, age FROM it;

-- name: next_owner_at
-- Seconds until the next unheld owner of each sort is due, to know how long to sleep.
SELECT (
    SELECT extract(epoch FROM next_at - now())::float8 FROM owner
    WHERE state <> 'RELEASED' AND wanted = 'absent'
      AND site IS NOT NULL AND (held_until IS NULL OR held_until < now())
      AND
      @readable
    ORDER BY next_at LIMIT 1
) AS releases, (
    SELECT extract(epoch FROM next_at - now())::float8 FROM owner
    WHERE state <> 'RELEASED' AND wanted = 'present' AND (state <> 'READY' OR repair OR changed_at IS NOT NULL)
      AND site IS NOT NULL AND (held_until IS NULL OR held_until < now())
      AND
      @readable
    ORDER BY next_at LIMIT 1
) AS work, (
    SELECT extract(epoch FROM next_at - now())::float8 FROM owner
    WHERE state = 'READY' AND wanted = 'present' AND NOT repair AND changed_at IS NULL
      AND site IS NOT NULL AND (held_until IS NULL OR held_until < now())
      AND
      @readable
    ORDER BY next_at LIMIT 1
) AS looks;

-- name: insert_webhook
-- No row: the project has as many webhooks as it may, or one of this name.
INSERT INTO webhook (id, project_id, name, url, events, created_by, mark, life, xact, sequence)
SELECT %(id)s, %(project_id)s, %(name)s, %(url)s, %(events)s, %(created_by)s, %(mark)s, %(life)s, %(xact)s::xid8, %(sequence)s
WHERE (SELECT count(*) FROM webhook WHERE project_id = %(project_id)s) < %(most)s
ON CONFLICT (project_id, name) DO NOTHING RETURNING *;

-- name: lock_webhooks
-- If two make a webhook at once, the second one counts the first one's.
SELECT pg_advisory_xact_lock(hashtextextended('webhooks/' || %(project_id)s, 0));

-- name: webhooks
SELECT * FROM webhook WHERE (%(project_id)s::text IS NULL OR project_id = %(project_id)s)
    AND (%(after)s::text IS NULL OR (project_id || '/' || name) COLLATE "C" > %(after)s)
ORDER BY (project_id || '/' || name) COLLATE "C" LIMIT %(limit)s;

-- name: webhook
SELECT * FROM webhook WHERE project_id = %(project_id)s AND (name = %(name)s OR id::text = %(name)s);

-- name: webhook_by_id
SELECT * FROM webhook WHERE id::text = %(id)s;

-- name: lock_webhook
SELECT revision FROM webhook WHERE id = %(id)s FOR UPDATE;

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
UPDATE webhook SET secret_number = %(number)s, old_until = now() + %(valid)s, revision = nextval('revision')
WHERE id = %(id)s AND secret_number = %(number)s - 1 RETURNING *;

-- name: enable_webhook
-- Resumes after the last event that was sent.
UPDATE webhook SET disabled_at = NULL, reason = '""', failures = 0, failing_since = NULL, next_at = now(),
    revision = nextval('revision')
WHERE id = %(id)s RETURNING *;

-- name: claim_webhooks
-- Claims due webhooks that have something to send, or a position of another life; at most `share` of a project.
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
-- Changes nothing if another worker has it by now, or it was disabled or deleted. `sent`: events that were delivered.
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
-- Records a failed attempt: the webhook is due again after `delay`; with `disable`, only after it is enabled.
UPDATE webhook SET held_until = NULL, failures = failures + 1, failing_since = coalesce(failing_since, now()),
    reason = %(reason)s, next_at = now() + %(delay)s,
    disabled_at = CASE WHEN %(disable)s THEN now() END
WHERE id = %(id)s AND token = %(token)s RETURNING failing_since, now() AS at;

-- name: prune_capacity_samples
DELETE FROM capacity_sample WHERE period IN
    (SELECT period FROM capacity_sample WHERE period < %(before)s ORDER BY period LIMIT %(limit)s);

-- name: prune_use
DELETE FROM use_span WHERE id IN (SELECT id FROM use_span WHERE until < %(before)s ORDER BY until LIMIT %(limit)s);

-- name: prune_part_failures
DELETE FROM part_failure WHERE id IN (SELECT id FROM part_failure WHERE at < %(before)s ORDER BY at LIMIT %(limit)s);

-- name: prune_part_stays
DELETE FROM part_stay WHERE (serial, kind, since) IN (
    SELECT serial, kind, since FROM part_stay WHERE seen_at < %(before)s ORDER BY seen_at LIMIT %(limit)s);

-- part: stream_fields
e.life, e.xact::text AS xact, e.sequence, e.at, e.type, e.message, e.key, e.owner_id, e.project_id, p.name AS pod

-- part: delivered
-- Whether an event can be delivered: below its transaction none is in progress, so nothing can appear before it. Events
-- of earlier lives are complete.
(life < (SELECT number FROM event_life) OR xact < pg_snapshot_xmin(pg_current_snapshot()))

-- part: event_place
-- Identifies where transactions get their numbers: the server, its timeline, and the database, which a restore
-- recreates.
(SELECT concat_ws('/', system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8),
    (SELECT oid FROM pg_database WHERE datname = current_database())) FROM pg_control_system())

-- name: event_life
SELECT number, mark, place =
    @event_place
    AS here, place = '' AS fresh FROM event_life;

-- name: hold_events
-- Once this has the lock, every writer before it has committed, and later ones see the new life.
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
-- The last event, of a project or of all, that is after a position and was removed before it was read there. No row:
-- none was.
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

-- name: give_back_stale_numbers
-- Frees numbers that a reading of their manager no longer shows, or whose manager no longer belongs to the fabric.
DELETE FROM stale_number WHERE fabric = %(fabric)s AND manager = %(manager)s AND number <> ALL(%(there)s)
RETURNING number, owner_id;

-- name: take_retention
-- One worker removes old records when it is due; if it dies, another does after the delay.
UPDATE retention SET next_at = %(later)s WHERE next_at <= %(at)s RETURNING next_at;

-- name: end_retention
-- `removed`: number of rows by kind, added to the totals.
UPDATE retention SET next_at = %(next)s, ended_at = %(at)s, removed = (
    SELECT coalesce(jsonb_object_agg(key, coalesce((retention.removed ->> key)::bigint, 0) + value::bigint), '{}')
    FROM jsonb_each_text(%(removed)s));

-- part: note_removed
-- Notes the last removed event of each project: readers at an earlier position see that (`removed` of a page).
, noted AS (
    INSERT INTO event_removed (project_id, life, xact, sequence)
    SELECT DISTINCT ON (project_id) project_id, life, xact, sequence FROM gone WHERE project_id IS NOT NULL
    ORDER BY project_id, life DESC, xact DESC, sequence DESC
    ON CONFLICT (project_id) DO UPDATE SET life = excluded.life, xact = excluded.xact, sequence = excluded.sequence
    WHERE (event_removed.life, event_removed.xact, event_removed.sequence)
        < (excluded.life, excluded.xact, excluded.sequence))

-- name: prune_events
-- Deletes events of owners that were released long ago, the last released first, since those of earlier ones are
-- already gone. By owner, not by age, which would scan the events kept for live owners each time.
WITH gone AS (DELETE FROM event WHERE sequence = ANY(ARRAY(
    SELECT e.sequence FROM owner o CROSS JOIN LATERAL (
        SELECT sequence FROM event WHERE owner_id = o.id AND at < %(before)s FOR UPDATE SKIP LOCKED
    ) e
    WHERE o.state = 'RELEASED' AND o.released_at < %(before)s ORDER BY o.released_at DESC LIMIT %(limit)s))
    RETURNING project_id, life, xact, sequence)
    @note_removed
SELECT FROM gone;

-- name: prune_live_events
-- Deletes events of live owners except the last `kept` + 1.
WITH gone AS (DELETE FROM event WHERE sequence IN (
    SELECT e.sequence FROM owner o
    CROSS JOIN LATERAL (SELECT sequence FROM event WHERE owner_id = o.id ORDER BY sequence DESC OFFSET %(kept)s LIMIT 1) last
    JOIN event e ON e.owner_id = o.id AND e.sequence < last.sequence AND e.at < %(before)s
    WHERE o.state <> 'RELEASED' AND o.created_at < %(before)s LIMIT %(limit)s)
    RETURNING project_id, life, xact, sequence)
    @note_removed
SELECT FROM gone;

-- name: prune_tombstones
-- Deletes resource rows of owners that were released long ago and have no remains that need them.
DELETE FROM resource WHERE (owner_id, key) IN (
    SELECT r.owner_id, r.key FROM owner o JOIN resource r ON r.owner_id = o.id
    WHERE o.state = 'RELEASED' AND o.released_at < %(before)s
      AND NOT EXISTS (SELECT 1 FROM number_hold h WHERE h.owner_id = o.id)
      AND NOT EXISTS (SELECT 1 FROM stale_number k WHERE k.owner_id = o.id)
      AND NOT EXISTS (SELECT 1 FROM quarantine_pod q WHERE q.pod_id = o.id)
      AND NOT EXISTS (SELECT 1 FROM trace t WHERE t.owner_id = o.id AND t.gone_at IS NULL)
    LIMIT %(limit)s FOR UPDATE OF r SKIP LOCKED);

-- name: prune_live_tombstones
-- The same for live owners: rows of resources that were removed long ago, or that were no longer wanted before they
-- were requested. The latter only if no worker can have requested one without a note, since the next worker then looks
-- for it. Kept are data, since the receipt says where it stayed, segments, whose rows may hold their numbers, and
-- everything while a node that is being freed has to be read. A change of an owner locks its row; a resource that is
-- wanted again meanwhile is no longer a tombstone.
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
-- Deletes readings of nodes that a pod freed early, and of another owner's numbers: once signed, the receipt has them.
DELETE FROM given_back WHERE id IN (
    SELECT g.id FROM given_back g JOIN owner o ON o.id = g.owner_id
    WHERE o.state = 'RELEASED' AND o.released_at < %(before)s
      AND EXISTS (SELECT 1 FROM receipt r WHERE r.owner_id = o.id)
    LIMIT %(limit)s);

-- name: prune_live_given_back
-- Deletes readings of live owners that later ones of the same things, by name, replaced: nodes that were assigned and
-- freed again.
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
-- Deletes generations of live pods' orders except the last ones.
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
-- Deletes generations that were replaced long ago; the active one stays, however old it is.
DELETE FROM site WHERE generation IN (
    SELECT generation FROM (
        SELECT generation, lead(activated_at) OVER (ORDER BY generation) AS replaced_at FROM site
    ) known WHERE replaced_at < %(before)s ORDER BY generation LIMIT %(limit)s);

-- name: saw_fabric
-- What a fabric's managers reported, for the metrics; port_errors is null where they don't report it.
INSERT INTO fabric_status (fabric, known, problems, port_errors, read_at)
VALUES (%(fabric)s, %(known)s, %(problems)s, %(port_errors)s, now())
ON CONFLICT (fabric) DO UPDATE SET known = excluded.known, problems = excluded.problems,
    port_errors = excluded.port_errors, read_at = excluded.read_at;

-- name: fabrics_left
-- Fabrics that the site no longer has.
DELETE FROM fabric_status WHERE NOT fabric = ANY(%(fabrics)s);

-- name: prune_site_desired
DELETE FROM site_desired WHERE owner_id IN (
    SELECT w.owner_id FROM site_desired w JOIN ONLY owner o ON o.id = w.owner_id
    WHERE o.state = 'RELEASED' AND o.released_at < %(before)s LIMIT %(limit)s);

-- name: prune_tenant_networks
DELETE FROM tenant_network WHERE owner_id IN (
    SELECT t.owner_id FROM tenant_network t JOIN ONLY owner o ON o.id = t.owner_id
    WHERE o.state = 'RELEASED' AND o.released_at < %(before)s LIMIT %(limit)s);

-- name: prune_web_sessions
DELETE FROM web_session WHERE digest IN (
    SELECT digest FROM web_session WHERE expires_at <= %(before)s LIMIT %(limit)s
);

-- name: prune_order_keys
-- Deletes old keys, and sooner those whose order made no pod.
DELETE FROM order_key WHERE (project_id, user_id, key) IN (
    SELECT project_id, user_id, key FROM order_key k
    WHERE at < %(unmade)s AND (at < %(before)s OR NOT EXISTS (SELECT FROM pod WHERE id = k.pod_id)) LIMIT %(limit)s
);
