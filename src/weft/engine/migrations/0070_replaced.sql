-- A replaced node is held by weft: why, in which pod, and which project asked (none: an operator did). A project may have
-- only so many.
ALTER TABLE acceptance
    ADD COLUMN cause jsonb NOT NULL DEFAULT '""',
    ADD COLUMN pod_id uuid,
    ADD COLUMN project_id text;
CREATE INDEX acceptance_project ON acceptance (project_id) WHERE project_id IS NOT NULL;
