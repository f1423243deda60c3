-- Statements of weft.engine.base, by name. `%(x)s` are psycopg parameters.

-- name: time
-- The time now, not when the transaction began: it may have waited for a lock.
SELECT clock_timestamp() AS at;

-- name: lock_capacity
-- One placement at a time: every claim of nodes or numbers holds this until its transaction ends.
SELECT pg_advisory_xact_lock(hashtext('weft.capacity'));

-- name: forget_node_tests
-- All tests of held nodes run again: pods may have had them since the backup was taken.
UPDATE acceptance SET tests = '{}', tests_from = %(at)s;

-- name: touch_queue
-- Something changed that may let an order start: process the queue at this time, or sooner. The row is written, and so
-- locked, even if it is already due; otherwise take_queue would miss the change.
UPDATE queue SET next_at = least(next_at, %(at)s);

-- name: send_notifications
-- Notifies of what other transactions have written (channel, payload). It needn't be on disk, since it only wakes.
SELECT set_config('synchronous_commit', 'off', true), pg_notify(n.one ->> 0, n.one ->> 1)
FROM jsonb_array_elements(%(notifications)s) AS n (one);

-- name: server
-- Identifies the server and its run: after a failover or a restart, the answering one may lack what the last one had.
SELECT pg_postmaster_start_time()::text AS started, inet_server_addr()::text AS address, inet_server_port() AS port;

-- part: ends
(SELECT coalesce(sum(number), 0)::bigint FROM epoch_end)

-- name: epochs
-- How many claims were made in each cloud, including all changes of orders, releases and quarantines.
SELECT cloud, number +
    @ends AS number
FROM epoch;

-- name: epoch_and_mark
-- The database's count in a cloud, and whether it knows the name of a note. A restored database counts as not knowing
-- it.
SELECT coalesce((SELECT e.number +
    @ends
FROM epoch e WHERE e.cloud = %(cloud)s), 0) AS number,
    EXISTS (SELECT FROM epoch_mark m WHERE m.cloud = %(cloud)s AND m.mark = %(mark)s)
        AND NOT EXISTS (SELECT FROM restored) AS known;

-- name: is_restored
SELECT FROM restored;

-- name: restored_is_accepted
DELETE FROM restored;

-- name: new_mark
-- The name of the next note: every database with this row has everything committed before it. Names of notes older than
-- the present one (`noted`) are deleted.
WITH old AS (
    DELETE FROM epoch_mark WHERE (cloud, mark) IN (
        SELECT cloud, mark FROM epoch_mark WHERE cloud = %(cloud)s AND number < %(noted)s FOR UPDATE SKIP LOCKED)
)
INSERT INTO epoch_mark (cloud, mark, number)
SELECT e.cloud, gen_random_uuid(), e.number +
    @ends
FROM epoch e WHERE e.cloud = %(cloud)s RETURNING mark, number;

-- name: count_end
-- Counts one more end, like the triggers.
INSERT INTO epoch_end (part, number) VALUES (mod(pg_backend_pid(), 16), 1)
ON CONFLICT (part) DO UPDATE SET number = epoch_end.number + 1 RETURNING part;

-- name: was_behind
-- Also true for a database that was restored and isn't accepted yet, whatever the cloud remembers.
SELECT WHERE EXISTS (SELECT FROM epoch_behind WHERE cloud = %(cloud)s) OR EXISTS (SELECT FROM restored);

-- name: found_behind
INSERT INTO epoch_behind (cloud) VALUES (%(cloud)s) ON CONFLICT DO NOTHING;

-- name: not_behind
DELETE FROM epoch_behind WHERE cloud = %(cloud)s;

-- name: touch_owners
-- All live owners that aren't held are due now.
UPDATE owner SET next_at = now() WHERE id IN (
    SELECT id FROM owner WHERE phase <> 'released' AND phase <> 'ordered' AND held_until IS NULL FOR UPDATE SKIP LOCKED);

-- name: new_epoch
-- A restored database that was accepted gets a name of its own, ahead of what the cloud remembers.
INSERT INTO epoch (cloud, life, number, accepted_at) VALUES (%(cloud)s, gen_random_uuid(), %(number)s, %(at)s)
ON CONFLICT (cloud) DO UPDATE SET life = gen_random_uuid(), number = greatest(epoch.number, %(number)s), accepted_at = %(at)s
RETURNING number;
