-- Statements of weft.engine.visit, by name. `%(x)s` are psycopg parameters.

-- name: renumber_node
-- A resource that was seen absent, or never requested, is to be created under another number of its pod. No row: it was
-- requested.
UPDATE resource SET document = %(document)s
WHERE owner_id = %(owner_id)s AND key = %(key)s AND state IN ('absent', 'wanted') AND expunged IS NULL
RETURNING key;

-- name: replan_pod
UPDATE pod SET plan = %(plan)s WHERE id = %(id)s;

-- name: adopt_resource
-- The resource already exists, created by someone else: it is looked up by its id, and its mark is one of the
-- differences.
UPDATE resource SET outside_id = %(outside_id)s, state = 'creating',
    former = CASE WHEN outside_id IS NULL THEN former
        ELSE former || jsonb_build_object('id', outside_id, 'facts', facts) END
WHERE owner_id = %(owner_id)s AND key = %(key)s;
