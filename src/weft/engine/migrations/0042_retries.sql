-- How often a retry was requested after it failed: a visit that began before one writes nothing any more.
ALTER TABLE owner ADD COLUMN retries integer NOT NULL DEFAULT 0;

-- Workers are also notified when another one hands back an owner that is due.
DROP TRIGGER pod_work ON pod;
CREATE TRIGGER pod_work AFTER UPDATE OF next_at, woken, held_until ON pod FOR EACH ROW
    WHEN (NEW.next_at < OLD.next_at OR NEW.woken > OLD.woken
        OR OLD.held_until IS NOT NULL AND NEW.held_until IS NULL AND NEW.next_at <= now()) EXECUTE FUNCTION tell_workers();
DROP TRIGGER owner_work ON owner;
CREATE TRIGGER owner_work AFTER UPDATE OF next_at, woken, held_until ON owner FOR EACH ROW
    WHEN (NEW.next_at < OLD.next_at OR NEW.woken > OLD.woken
        OR OLD.held_until IS NOT NULL AND NEW.held_until IS NULL AND NEW.next_at <= now()) EXECUTE FUNCTION tell_workers();
