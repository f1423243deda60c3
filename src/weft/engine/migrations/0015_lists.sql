-- Lists and lookups whose cost doesn't depend on the number of past pods, and wake-ups only for those concerned.

-- Pages of lists go by name and id.
CREATE INDEX pod_list ON pod (project_id, name, id) WHERE state <> 'RELEASED';
CREATE INDEX pod_list_all ON pod (name, id) WHERE state <> 'RELEASED';
-- A pod is looked up by its name, even after its release.
CREATE INDEX pod_name ON pod (name, project_id, created_at DESC);
CREATE INDEX pod_state ON pod (state) INCLUDE (since, alarmed) WHERE state <> 'RELEASED';

-- Workers are only woken by what makes work due sooner, not by each event of each pod.
CREATE FUNCTION tell_workers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('weft_work', '');
    RETURN NULL;
END $$;
CREATE TRIGGER pod_work AFTER UPDATE OF next_at, woken ON pod FOR EACH ROW
    WHEN (NEW.next_at < OLD.next_at OR NEW.woken > OLD.woken) EXECUTE FUNCTION tell_workers();
CREATE TRIGGER pod_came AFTER INSERT ON pod FOR EACH STATEMENT EXECUTE FUNCTION tell_workers();
CREATE TRIGGER owner_work AFTER UPDATE OF next_at, woken ON owner FOR EACH ROW
    WHEN (NEW.next_at < OLD.next_at OR NEW.woken > OLD.woken) EXECUTE FUNCTION tell_workers();
CREATE TRIGGER owner_came AFTER INSERT ON owner FOR EACH STATEMENT EXECUTE FUNCTION tell_workers();
CREATE TRIGGER queue_work AFTER UPDATE ON queue FOR EACH ROW
    WHEN (NEW.next_at < OLD.next_at) EXECUTE FUNCTION tell_workers();
