-- What the active site wants nodes to be accepted for; null: nothing.
CREATE FUNCTION site_acceptance(cause text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN document #> '{acceptance,after}' ? cause THEN document #>> '{acceptance,what}' END
    FROM site ORDER BY generation DESC LIMIT 1
$$;

CREATE FUNCTION hold_for_site(nodes text[], what_for text, code text) RETURNS void LANGUAGE sql AS $$
    WITH made AS (
        INSERT INTO acceptance (node, what, since, held_by, cause)
        SELECT node, what_for, now(), 'weft', node_message(code, '{}') FROM unnest(nodes) node ORDER BY node
        ON CONFLICT (node, what) DO NOTHING RETURNING *
    )
    INSERT INTO node_history (node, at, type, message)
    SELECT node, since, 'hold', node_message('NODE_HELD', jsonb_build_object('what', what, 'cause', cause)) FROM made ORDER BY node;
$$;

-- Runs after `node_went`, which writes that the node is free (triggers fire in the order of their names).
-- For a node that its last pod leaves, if something was requested on it: a dropped claim takes no node out of service.
CREATE FUNCTION hold_left_nodes() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    what_for text := site_acceptance('pod');
BEGIN
    IF what_for IS NOT NULL THEN
        PERFORM hold_for_site(array_agg(DISTINCT c.node), what_for, 'HELD_AFTER_POD') FROM changed c
        WHERE NOT EXISTS (SELECT FROM node_hold h WHERE h.node = c.node) AND EXISTS (SELECT FROM resource r
            WHERE r.owner_id = c.pod_id AND r.document ->> 'node' = c.node AND r.started_at IS NOT NULL)
        HAVING count(*) > 0;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER node_went_held AFTER DELETE ON node_hold REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION hold_left_nodes();

CREATE FUNCTION hold_cleared_nodes() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    what_for text := site_acceptance('quarantine');
BEGIN
    IF what_for IS NOT NULL THEN
        PERFORM hold_for_site(array_agg(c.node), what_for, 'HELD_AFTER_QUARANTINE') FROM changed c HAVING count(*) > 0;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER quarantine_left AFTER DELETE ON quarantine REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION hold_cleared_nodes();
