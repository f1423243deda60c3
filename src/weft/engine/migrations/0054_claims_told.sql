-- Workers are told of a claim after it was confirmed (weft.engine.teller), not by the transactions that claim and confirm it:
-- those who notify are committed one after the other. Of orders that wait, the queue's row tells; of a pod that no worker has
-- had yet whatever else makes it due sooner also wakes it.
DROP TRIGGER pod_came ON pod;
DROP TRIGGER pod_work ON pod;
CREATE TRIGGER pod_work AFTER UPDATE OF next_at, woken, held_until ON pod FOR EACH ROW
    WHEN (NEW.next_at < OLD.next_at AND NEW.token > 0 OR NEW.woken > OLD.woken
        OR OLD.held_until IS NOT NULL AND NEW.held_until IS NULL AND NEW.next_at <= now()) EXECUTE FUNCTION tell_workers();
