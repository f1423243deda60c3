-- A hold that a person set under the name of one of the site's own becomes the site's, too, once the site wants it: its
-- tests are then required, and none that ran before counts. weft's holds are those with a cause, since a user may be
-- called weft.
CREATE OR REPLACE FUNCTION hold_for_site(nodes text[], what_for text, code text) RETURNS void LANGUAGE sql AS $$
    WITH made AS (
        INSERT INTO acceptance AS held (node, what, since, held_by, cause)
        SELECT node, what_for, now(), 'weft', node_message(code, '{}') FROM unnest(nodes) node ORDER BY node
        ON CONFLICT (node, what) DO UPDATE SET cause = excluded.cause, tests = '{}', tests_from = now()
        WHERE held.cause = '""' RETURNING *
    )
    INSERT INTO node_history (node, at, type, message)
    SELECT node, now(), 'hold', node_message('NODE_HELD', jsonb_build_object('what', what, 'cause', cause)) FROM made ORDER BY node;
$$;
