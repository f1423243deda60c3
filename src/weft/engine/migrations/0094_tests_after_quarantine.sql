-- People may have worked on a node in quarantine: if it is already held, all its tests run again. Runs after
-- `quarantine_left`, which holds it (triggers fire in the order of their names).
CREATE TRIGGER quarantine_left_tests AFTER DELETE ON quarantine REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION forget_tests();
