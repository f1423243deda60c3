-- What outside tests found on a held node, for this hold only: test -> its last result. And since when results count,
-- if later than the hold: since a pod left the node.
ALTER TABLE acceptance ADD COLUMN tests jsonb NOT NULL DEFAULT '{}';
ALTER TABLE acceptance ADD COLUMN tests_from timestamptz;

-- A pod that leaves a held node could have reported results, and changed the machine: all tests run again.
CREATE FUNCTION forget_tests() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE acceptance a SET tests = '{}', tests_from = now() FROM changed c WHERE c.node = a.node;
    RETURN NULL;
END $$;
-- Runs after `node_went_held` (triggers fire in the order of their names).
CREATE TRIGGER node_went_tests AFTER DELETE ON node_hold REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION forget_tests();
