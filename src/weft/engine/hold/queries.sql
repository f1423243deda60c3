-- Statements of weft.engine.hold, by name. `%(x)s` are psycopg parameters.

-- name: servers_on
-- Servers of pods that share these nodes: their ids, and whether some have no id, as Nova's answer isn't known yet.
SELECT h.node, coalesce(array_agg(r.outside_id) FILTER (WHERE r.outside_id IS NOT NULL), '{}') AS ids,
    bool_or(r.outside_id IS NULL) AS unanswered
FROM node_hold h JOIN resource r ON r.owner_id = h.pod_id AND r.kind = 'server' AND r.document->>'node' = h.node
WHERE NOT h.whole AND h.node = ANY(%(nodes)s) AND r.state <> 'absent' GROUP BY h.node;

-- name: event_of_code
-- The last event with this code.
SELECT message FROM event WHERE owner_id = %(owner_id)s AND message ->> 'code' = ANY(%(codes)s) ORDER BY sequence DESC LIMIT 1;

-- name: hold_number
INSERT INTO number_hold (space, number, owner_id) VALUES (%(space)s, %(number)s, %(owner_id)s);

-- name: nodes_withheld
SELECT node FROM node_hold WHERE pod_id = %(pod_id)s AND withheld <> '';

-- name: give_back_node
-- Frees a node with its virtual functions, which are locked first, in the order of lock_functions.
WITH functions AS MATERIALIZED (
    SELECT FROM function_hold WHERE pod_id = %(pod_id)s AND node = %(node)s ORDER BY function FOR UPDATE
)
DELETE FROM node_hold WHERE node = %(node)s AND pod_id = %(pod_id)s AND (SELECT count(*) FROM functions) >= 0;

-- name: give_back_parts
-- Frees the parts of a shared node that departed servers had. No row: the pod keeps no other part of the node. Virtual
-- functions as in give_back_node.
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

-- name: quarantines
SELECT node, reason, since, pod_id FROM quarantine;

-- name: quarantine
-- Keeps the first reason, which is the one to investigate; another owner's reason is appended once. Every pod is
-- recorded, even if its reason isn't.
WITH pods AS (
    INSERT INTO quarantine_pod (node, pod_id) SELECT %(node)s, %(pod_id)s::uuid WHERE %(pod_id)s::uuid IS NOT NULL
    ON CONFLICT DO NOTHING
), made AS (
    INSERT INTO quarantine (node, reason, since, pod_id) VALUES (%(node)s, %(reason)s, %(at)s, %(pod_id)s)
    ON CONFLICT (node) DO UPDATE
    SET reason = left(quarantine.reason || '; ' || excluded.reason, 2000), pod_id = coalesce(excluded.pod_id, quarantine.pod_id),
        revision = nextval('revision')
    WHERE quarantine.pod_id IS DISTINCT FROM excluded.pod_id AND position(excluded.reason IN quarantine.reason) = 0
    RETURNING node
)
INSERT INTO node_history (node, at, type, message, by, pod_id, pod, project_id)
SELECT m.node, %(at)s, 'quarantine', node_message('NODE_QUARANTINED', jsonb_build_object('reason', %(reason)s::text)), %(by)s,
    o.id, o.name, o.project_id
FROM made m LEFT JOIN owner o ON o.id = %(pod_id)s;

-- name: set_aside
-- Nodes that an owner quarantined and that haven't been cleared since.
SELECT node FROM quarantine_pod WHERE pod_id = %(owner_id)s;

-- name: number_taken
-- Everything of the pod is removed before it gets another number.
UPDATE owner SET taken = %(taken)s WHERE id = %(id)s;

-- name: insert_owner
-- Inserts a site or a network for the workers; its first visit finds out what is desired.
INSERT INTO owner (id, kind, site, project_id, name, created_by, created_at, state, since, phase, next_at)
VALUES (%(id)s, %(kind)s, %(site)s, %(project_id)s, %(name)s, %(by)s, %(at)s, 'PLACED', %(at)s, 'building', now());

-- name: follow_owner
-- Begins the next desired generation of an owner other than a pod.
UPDATE ONLY owner SET generation = generation + 1, changed_at = coalesce(changed_at, %(at)s) WHERE id = %(id)s
RETURNING generation, changed_at;

-- name: live_owners
-- Owners other than pods.
SELECT * FROM ONLY owner WHERE state <> 'RELEASED' ORDER BY created_at, id;

-- name: who_holds
-- The owner that has a number, or may still have it, since a standby manager may have it configured.
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

-- name: resources_of
-- The list is written so that PostgreSQL can't count it, and one plan serves all calls: otherwise it makes one for each
-- number of owners.
SELECT *, coalesce(%(at)s::timestamptz, clock_timestamp()) AS at FROM resource
WHERE owner_id = ANY(ARRAY(SELECT unnest(%(owners)s::uuid[]))) ORDER BY owner_id, position, key;

-- name: release_owner
-- Like release_pod, for an owner other than a pod.
WITH asked AS (
    UPDATE owner SET wanted = 'absent', woken = woken + 1, next_at = now(), failures = 0
    WHERE id = %(id)s AND wanted = 'present' RETURNING id
), written_events AS (
    INSERT INTO event (owner_id, at, type, message)
    SELECT id, coalesce(%(at)s::timestamptz, clock_timestamp()), 'release', %(message)s FROM asked
)
SELECT true AS asked, pg_notify('weft_event', id::text) FROM asked;

-- name: repaired_owner
UPDATE owner SET repair = false WHERE id = %(id)s;

-- part: left_to_newer
-- Whether this version, which couldn't read the row, leaves it to a newer weft (weft.engine.base.schema.enter): until
-- it is woken, another site is active, or the hour is over, since an operator may have corrected it.
coalesce(left_by ->> current_setting('weft.reader', true) = woken ||
    @left_until
, false)

-- part: left_until
to_char(now() AT TIME ZONE 'UTC', '/YYYY-MM-DD HH24/') || coalesce((SELECT max(generation) FROM site), 0)

-- part: readable
(left_by IS NULL OR NOT
    @left_to_newer
)

-- part: claimed
-- Claims due owners of any kind that no worker holds. The token increases, so that an older holder is refused. A holder
-- that never handed back may have a request under way: late_until. Returns a pod's row as it is locked, so that nothing
-- in it is older than the token, and the number of claims in its cloud, its own included. Of the plan's graph it
-- returns only the segments, whose members visits decide, and not the reasons for its nodes: these are most of a plan,
-- and no visit needs them.
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
    (SELECT activated_at FROM site ORDER BY generation DESC LIMIT 1) AS site_activated_at,
    (SELECT max(accepted_at) FROM epoch) AS accepted_at, e.number +
        @ends AS number
FROM due LEFT JOIN taken ON taken.id = due.id LEFT JOIN epoch e ON e.cloud = taken.plan ->> 'cloud' ORDER BY due.wanted = 'absent' DESC, due.next_at

-- name: claim_work
-- Claims owners with more to do than observing what is READY, up to a number of each sort: releases first, since they
-- free capacity and each of their steps would otherwise wait behind everything that boots; then those that have waited
-- longest.
WITH releases AS (
    SELECT id, kind, wanted, next_at FROM owner
    WHERE state <> 'RELEASED' AND wanted = 'absent'
      AND site IS NOT NULL AND next_at <= now() AND (held_until IS NULL OR held_until < now())
      AND
      @readable
    ORDER BY next_at FOR UPDATE SKIP LOCKED LIMIT %(releases)s
), others AS (
    SELECT id, kind, wanted, next_at FROM owner
    WHERE state <> 'RELEASED' AND wanted = 'present' AND (state <> 'READY' OR repair OR changed_at IS NOT NULL)
      AND site IS NOT NULL AND next_at <= now() AND (held_until IS NULL OR held_until < now())
      AND
      @readable
    ORDER BY next_at FOR UPDATE SKIP LOCKED LIMIT %(most)s
), due AS (
    SELECT * FROM releases UNION ALL SELECT * FROM others
),
@claimed;

-- name: claim_ready
-- Claims other owners, those first that have waited longest.
WITH due AS (
    SELECT id, kind, wanted, next_at FROM owner
    WHERE state = 'READY' AND wanted = 'present' AND NOT repair AND changed_at IS NULL
      AND site IS NOT NULL AND next_at <= now() AND (held_until IS NULL OR held_until < now())
      AND
      @readable
    ORDER BY next_at FOR UPDATE SKIP LOCKED LIMIT %(most)s
),
@claimed;

-- name: extend_holds
-- Extends a worker's holds (`owners`: id, token). No row: the worker no longer holds the owner. Not `extended`: the row
-- is locked, and waiting for it would let other holds expire.
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
-- Checked right before each call that changes something outside. No lock, since the call can't be part of a
-- transaction.
SELECT generation, retries FROM owner WHERE id = %(id)s AND token = %(token)s AND held_until > now();

-- name: are_held
-- Like is_held, for several owners (`owners`: id, token); returns those that are held.
SELECT o.id, o.generation, o.retries FROM owner o
JOIN jsonb_to_recordset(%(owners)s) AS s (id uuid, token bigint) ON s.id = o.id
WHERE o.token = s.token AND o.held_until > now();

-- name: late_for
-- Includes actions that a tenant requested for its servers, while their outcome is unknown.
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
    SELECT id, CASE kind WHEN 'pod' THEN project_id END AS project_id, wanted, late_until, acts_until FROM owner
    WHERE id = %(id)s AND token = %(token)s AND generation = %(generation)s
        AND retries = %(retries)s AND held_until > now() FOR UPDATE
), it AS MATERIALIZED (
    SELECT *, coalesce(%(at)s::timestamptz, clock_timestamp()) AS at FROM held
)

-- part: written_events
-- The events of such a write, with their place in the stream. An error is repeated only once another event followed it,
-- which may be one of the same write (`again`). Another statement notifies followers afterwards.
written_events AS (
    INSERT INTO event (owner_id, project_id, life, at, type, message, key)
    SELECT id, project_id, (SELECT number FROM event_life), at, type, message, key FROM it, ROWS FROM (jsonb_to_recordset(
        %(events)s) AS (type text, message jsonb, key text, again boolean)) WITH ORDINALITY AS e (type, message, key, again, n)
    WHERE again OR NOT EXISTS (
        SELECT FROM event o WHERE o.owner_id = it.id AND o.message = e.message AND o.sequence > (
            SELECT max(sequence) FROM event WHERE owner_id = it.id AND type <> 'error')
    )
    ORDER BY n
)

-- part: conditions
-- A condition without a time begins now.
(SELECT coalesce(jsonb_agg(CASE WHEN c.one ->> 'since' IS NULL
        THEN c.one || jsonb_build_object('since', it.at) ELSE c.one END ORDER BY c.n), '[]')
    FROM jsonb_array_elements(%(conditions)s) WITH ORDINALITY AS c (one, n))

-- part: written_notes
-- What every write of notes includes: resources, and the owner's own row.
changed AS (
    UPDATE resource r SET state = c.state, outside_id = coalesce(c.outside_id, r.outside_id), reason = c.reason,
        differences = c.differences, former = coalesce(c.former, r.former),
        facts = CASE WHEN c.facts <> '{}' OR c.outside_id <> r.outside_id THEN c.facts ELSE r.facts END,
        attempts = c.attempts, asked = c.asked,
        since = CASE WHEN r.state = c.state THEN coalesce(r.since, at) ELSE at END,
        started_at = coalesce(r.started_at, at),
        finished_at = CASE WHEN c.state IN ('settled', 'absent') THEN at END
    FROM it, jsonb_to_recordset(%(changes)s) AS c (key text, state text, outside_id text, reason jsonb,
        differences jsonb, facts jsonb, attempts integer, asked boolean, former jsonb)
    WHERE owner_id = it.id AND r.key = c.key
), owned AS (
    UPDATE owner p SET phase = CASE WHEN %(phase)s = '' THEN phase ELSE %(phase)s END,
        state = CASE WHEN %(phase)s = '' THEN state ELSE %(state)s END,
        reason = CASE WHEN %(phase)s = '' THEN reason ELSE %(reason)s END,
        conditions = CASE WHEN %(phase)s = '' THEN conditions ELSE
            @conditions
            END,
        since = CASE WHEN %(moved)s THEN at ELSE since END,
        alarmed = alarmed AND NOT %(moved)s AND NOT %(done)s AND (%(delay)s < 0 OR parked IS NULL),
        late_until = greatest(p.late_until, now() + %(lands)s::float8 * interval '1 second'),
        watched_at = CASE WHEN %(watched)s THEN at ELSE watched_at END,
        ready_generation = CASE WHEN %(done)s THEN generation ELSE ready_generation END,
        ready_at = CASE WHEN %(done)s THEN at ELSE ready_at END,
        changed_at = CASE WHEN NOT %(done)s THEN changed_at END,
        worked = coalesce(%(worked)s::float8, worked),
        worked_at = CASE WHEN %(worked)s IS NULL THEN worked_at ELSE %(worked_at)s::timestamptz END,
        worked_by = CASE WHEN %(worked)s IS NULL THEN worked_by ELSE %(worked_by)s END,
        worker = CASE WHEN %(delay)s < 0 THEN worker END,
        held_until = CASE WHEN %(delay)s < 0 THEN held_until END,
        parked = CASE WHEN %(delay)s < 0 THEN parked END,
        failures = CASE WHEN %(delay)s < 0 THEN failures ELSE %(failures)s END,
        next_at = CASE WHEN %(delay)s < 0 THEN next_at WHEN woken > %(woken)s THEN now()
            ELSE now() + %(delay)s * interval '1 second' END
    FROM it WHERE p.id = it.id AND (%(phase)s <> '' OR %(watched)s OR %(done)s OR %(delay)s >= 0
        OR coalesce(%(lands)s, %(worked)s) IS NOT NULL)
)

-- name: write_held
-- Writes a visit's notes: resources; the owner's phase and conditions with their summary (`phase` empty: unchanged);
-- that everything is as the newest generation desires (`done`); events; and that the worker hands the owner back, due
-- after `delay` seconds (negative: it keeps it), or at once if the owner was woken meanwhile. `lands`: a request with
-- an unknown or unwritten outcome may take effect for this many more seconds, and the next worker looks for everything
-- (null: there is no such request). `worked`: how long its release or change has been worked on until `worked_at`
-- (null: unchanged). `seconds`, `late_until`: see late_for.
WITH
@fenced,
@written_notes,
@written_events
SELECT wanted, at, '{}'::text[] AS withheld,
    late AS late_until, extract(epoch FROM late - now())::float8 AS seconds
FROM it, greatest(late_until, acts_until, now() + %(lands)s::float8 * interval '1 second') AS late;

-- name: write_held_watched
-- Like write_held; also writes why adapters of a pod's nodes are out of its segment (empty: they are in it), and the
-- segment, if that changed it (a settled one is then observed again). A statement of its own, since triggers of
-- node_hold run for each such statement, whatever it changes.
WITH
@fenced,
@written_notes, withheld AS (
    UPDATE node_hold h SET withheld = n.reason
    FROM it, jsonb_to_recordset(%(nodes)s) AS n (node text, reason text)
    WHERE h.pod_id = it.id AND h.node = n.node AND h.withheld <> n.reason RETURNING h.node, h.withheld
), rewritten AS (
    UPDATE resource SET document = %(document)s, since = CASE state WHEN 'settled' THEN at ELSE since END,
        state = CASE state WHEN 'settled' THEN 'pending' ELSE state END
    FROM it WHERE owner_id = it.id AND key = %(key)s
),
@written_events
SELECT wanted, at, ARRAY(SELECT node FROM withheld WHERE withheld <> '') AS withheld,
    late AS late_until, extract(epoch FROM late - now())::float8 AS seconds
FROM it, greatest(late_until, acts_until, now() + %(lands)s::float8 * interval '1 second') AS late;

-- name: release_held
-- Ends an owner: writes its receipt and state, frees its capacity except the numbers in `kept` (`space number`), and
-- hands it back. Virtual functions are freed with their nodes, as in give_back_node.
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
-- Hands back owners that were observed and are unchanged (`nodes`: those whose adapters may be in their segments), like
-- write_held. No row: another worker holds the owner, or it has another generation. Not `gone`: its row is locked, and
-- it is handed back with the next ones.
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
-- Hands an owner back: due after a delay (null: since it was due before), or at once if it was woken meanwhile.
-- `lands`: see write_held.
UPDATE owner SET worker = NULL, held_until = NULL, failures = %(failures)s,
    alarmed = alarmed AND parked IS NULL, parked = NULL,
    late_until = greatest(late_until, now() + %(lands)s::float8 * interval '1 second'),
    next_at = CASE WHEN woken > %(woken)s THEN now() ELSE coalesce(now() + %(delay)s * interval '1 second', next_at) END
WHERE id = %(id)s AND token = %(token)s;

-- name: set_alarmed
-- An alarm is raised once per state.
UPDATE owner SET alarmed = true WHERE id = %(id)s AND NOT alarmed;

-- name: hold_stale_number
INSERT INTO stale_number (fabric, manager, number, owner_id, reason, since)
VALUES (%(fabric)s, %(manager)s, %(number)s, %(owner_id)s, %(reason)s, now())
ON CONFLICT (fabric, manager, number) DO UPDATE SET owner_id = excluded.owner_id, reason = excluded.reason;

-- name: holdings_of
-- What an owner holds: nodes; with a null node, numbers; and with a null space, too, what it has freed early.
SELECT h.node, q.node IS NOT NULL AS quarantined, NULL AS space, NULL::int AS number, NULL::bigint AS id, NULL::text[] AS nodes,
    NULL::jsonb AS items
FROM node_hold h LEFT JOIN quarantine q ON q.node = h.node WHERE h.pod_id = %(owner_id)s
UNION ALL
SELECT NULL, false, space, number, NULL, NULL, NULL FROM number_hold WHERE owner_id = %(owner_id)s
UNION ALL
SELECT NULL, false, NULL, NULL, id, nodes, items FROM given_back WHERE owner_id = %(owner_id)s;

-- name: numbers_of
SELECT space, number FROM number_hold WHERE owner_id = %(owner_id)s ORDER BY space, number;

-- name: give_back_number
DELETE FROM number_hold WHERE space = %(space)s AND number = %(number)s AND owner_id = %(owner_id)s;

-- name: abandon_owner
-- Abandons an owner whose release was requested and isn't finished. An operator may request what weft has already
-- requested by itself (`own`), which waits for an open gate. Earlier failures no longer count.
UPDATE owner SET abandoned_by = %(by)s, abandoned_why = %(why)s, abandoned_at = %(at)s, abandoned_own = %(own)s,
    abandoned_worked = worked, woken = woken + 1, next_at = now(), failures = CASE WHEN %(own)s THEN failures ELSE 0 END
WHERE id = %(id)s AND wanted = 'absent' AND state = 'RELEASING' AND (abandoned_at IS NULL OR abandoned_own AND NOT %(own)s)
RETURNING id;

-- name: nodes_leaving
-- `at`: when each began to leave.
SELECT h.node, h.leaving_ports AS ports, h.cleared, g.at
FROM node_hold h LEFT JOIN pod_generation g ON g.pod_id = h.pod_id AND g.generation = h.leaving
WHERE h.pod_id = %(pod_id)s AND h.leaving IS NOT NULL ORDER BY h.node;

-- name: insert_given_back
INSERT INTO given_back (owner_id, nodes, at, items) VALUES (%(owner_id)s, %(nodes)s, %(at)s, %(items)s);
