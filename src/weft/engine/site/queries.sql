-- Statements of weft.engine.site, by name. `%(x)s` are psycopg parameters.

-- name: leave_owner
-- Ends an owner other than a pod, and leaves everything it has outside to another manager. weft forgets its resources,
-- so that they don't count as remains of a release. A worker that holds it is refused from here on.
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
    -- previous owners of the number: it would look like theirs, back after their release
    DELETE FROM resource r USING segments s, owner o WHERE r.kind = 'segment' AND r.outside_id = s.outside_id
        AND r.document ->> 'where' = s.place AND o.id = r.owner_id AND o.state = 'RELEASED'
), numbers AS (
    DELETE FROM number_hold WHERE owner_id IN (SELECT id FROM ended)
), written_events AS (
    INSERT INTO event (owner_id, at, type, message) SELECT id, %(at)s, 'release', %(message)s FROM ended
)
SELECT pg_notify('weft_event', id::text) FROM ended;

-- name: tenant_networks
-- Live owners of kind network with what was last read about them; `wanted`: absent if they are being released.
SELECT t.*, o.wanted, o.name, o.project_id FROM tenant_network t JOIN ONLY owner o ON o.id = t.owner_id
WHERE t.cloud = %(cloud)s AND t.fabric = %(fabric)s AND o.state <> 'RELEASED' ORDER BY t.network_id;

-- name: tenant_network_places
-- Places of tenants' live networks that aren't being released.
SELECT DISTINCT t.cloud, t.fabric FROM tenant_network t JOIN ONLY owner o ON o.id = t.owner_id
WHERE o.state <> 'RELEASED' AND o.wanted = 'present';

-- name: tenant_network
SELECT * FROM tenant_network WHERE owner_id = %(owner_id)s;

-- name: insert_tenant_network
INSERT INTO tenant_network (owner_id, cloud, fabric, network_id, document, read_at, ports_in, waiting, out, waits_since)
VALUES (%(owner_id)s, %(cloud)s, %(fabric)s, %(network_id)s, %(document)s, %(at)s, %(in)s, %(waiting)s, %(out)s,
    %(waits_since)s);

-- name: set_tenant_network
-- Writes a reading, unless another worker's reading began later; no row then.
UPDATE tenant_network SET document = %(document)s, read_at = %(at)s, ports_in = %(in)s, waiting = %(waiting)s,
    out = %(out)s, waits_since = %(waits_since)s
WHERE owner_id = %(owner_id)s AND read_at < %(at)s RETURNING owner_id;

-- name: read_tenant_networks
-- Records that these networks were seen unchanged. Skips locked rows, since another worker is reading these, too.
WITH mine AS (SELECT owner_id FROM tenant_network WHERE owner_id = ANY(%(owners)s) FOR UPDATE SKIP LOCKED)
UPDATE tenant_network t SET read_at = greatest(t.read_at, %(at)s) FROM mine WHERE t.owner_id = mine.owner_id;

-- name: networks_of_weft
-- Networks in a cloud that live owners have, or are about to have: id, or null while it is unknown, and number.
SELECT r.outside_id AS id, (r.document -> 'spec' ->> 'segment')::integer AS number
FROM resource r JOIN owner o ON o.id = r.owner_id
WHERE r.kind = 'network' AND r.document ->> 'where' = %(cloud)s AND o.state <> 'RELEASED' AND r.state <> 'absent';

-- name: notify_tenant_networks
-- Wakes the keeper of tenants' networks: the cloud reported that something changed.
SELECT pg_notify('weft_event', 'tenant networks');

-- name: newest_site_owner
-- The owner of a site's resources: the live one, otherwise the one released last.
SELECT * FROM ONLY owner WHERE kind = 'site' AND site = %(site)s
ORDER BY state = 'RELEASED', created_at DESC, released_at DESC, id LIMIT 1;

-- name: site_desired
SELECT * FROM site_desired WHERE owner_id = %(owner_id)s;

-- name: set_site_desired
-- Writes what was applied. No row: a newer generation of the site was applied meanwhile. Adoptions stay, except those
-- that are done or being removed (`again`: a thing that returns is a different one), and those no longer wanted.
INSERT INTO site_desired (owner_id, generation, graph, adopted, going, applied_at, applied_by)
VALUES (%(owner_id)s, %(generation)s, %(graph)s, %(adopted)s, %(going)s, %(at)s, %(by)s)
ON CONFLICT (owner_id) DO UPDATE SET generation = excluded.generation, graph = excluded.graph, going = excluded.going,
    adopted = (SELECT coalesce(jsonb_object_agg(a.key, a.value), '{}')
        FROM jsonb_each((site_desired.adopted - %(again)s::text[]) || excluded.adopted) a
        WHERE a.key IN (SELECT g.one->>'key' FROM jsonb_array_elements(excluded.graph->'resources') g (one))),
    applied_at = excluded.applied_at, applied_by = excluded.applied_by
WHERE site_desired.generation <= excluded.generation RETURNING owner_id;

-- name: pods_on_networks
-- Live pods with ports, routers or floating IPs on networks of the site, by the networks' names or ids, as pods refer
-- to them.
SELECT DISTINCT p.name, coalesce(r.document -> 'spec' ->> 'site_network', r.document -> 'spec' ->> 'external_network')
    AS network
FROM resource r JOIN pod p ON p.id = r.owner_id
WHERE p.state <> 'RELEASED' AND r.kind IN ('port', 'router', 'floating_ip')
  AND coalesce(r.document -> 'spec' ->> 'site_network', r.document -> 'spec' ->> 'external_network') = ANY(%(networks)s)
ORDER BY p.name;

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
