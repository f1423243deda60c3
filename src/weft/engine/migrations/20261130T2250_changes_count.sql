-- A dump that lacks a change would take it back: end a lease that was extended, open what was closed to others, start an
-- order that was withdrawn. So changes and withdrawals count, as releases do.
CREATE CONSTRAINT TRIGGER pod_changes AFTER UPDATE OF generation ON pod DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.generation <> NEW.generation) EXECUTE FUNCTION count_end();
DROP TRIGGER pod_ends ON pod;
CREATE CONSTRAINT TRIGGER pod_ends AFTER UPDATE OF wanted ON pod DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.wanted = 'present' AND NEW.wanted = 'absent') EXECUTE FUNCTION count_end();
