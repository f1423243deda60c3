-- weft holds a replaced node: why, in which pod, and which project asked (null: an operator did). A project may only
-- have a limited number of them.
ALTER TABLE acceptance
    ADD COLUMN cause jsonb NOT NULL DEFAULT '""',
    ADD COLUMN pod_id uuid,
    ADD COLUMN project_id text;
CREATE INDEX acceptance_project ON acceptance (project_id) WHERE project_id IS NOT NULL;
