-- What outside tests found on a held node, for this hold alone: test -> its last result; and since when results of the node
-- count, if that is later than the hold itself: since a pod left it.
ALTER TABLE acceptance ADD COLUMN tests jsonb NOT NULL DEFAULT '{}';
ALTER TABLE acceptance ADD COLUMN tests_from timestamptz;

-- A pod that leaves a held node could have written results, and changed the machine: all tests run again.
CREATE FUNCTION forget_tests() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE acceptance a SET tests = '{}', tests_from = now() FROM changed c WHERE c.node = a.node;
    RETURN NULL;
END $$;
-- After `node_went_held` (triggers fire by name).
CREATE TRIGGER node_went_tests AFTER DELETE ON node_hold REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION forget_tests();
