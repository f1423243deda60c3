-- Workers are notified of a claim after it was confirmed (weft.engine.base.notifier), not by the transactions that
-- claim and confirm it: transactions that notify are committed one after the other. For waiting orders the queue's row
-- notifies. What makes a pod due sooner that no worker has held yet also wakes it.
DROP TRIGGER pod_came ON pod;
DROP TRIGGER pod_work ON pod;
CREATE TRIGGER pod_work AFTER UPDATE OF next_at, woken, held_until ON pod FOR EACH ROW
    WHEN (NEW.next_at < OLD.next_at AND NEW.token > 0 OR NEW.woken > OLD.woken
        OR OLD.held_until IS NOT NULL AND NEW.held_until IS NULL AND NEW.next_at <= now()) EXECUTE FUNCTION tell_workers();
