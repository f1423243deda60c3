-- While a node was in quarantine, people worked on it: if it is held already, all its tests run again.
-- After `quarantine_left`, which holds it (triggers fire by name).
CREATE TRIGGER quarantine_left_tests AFTER DELETE ON quarantine REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION forget_tests();
