-- The recent use of projects is read from the index alone: rows of released pods are wide, and are never removed.
DROP INDEX pod_released;
CREATE INDEX pod_released ON pod (released_at) INCLUDE (project_id, units, placed_at) WHERE state = 'RELEASED';
