-- All pods that put a node into quarantine: each of those that shared it keeps its numbers until the node is cleared.
-- `quarantine.pod_id` is the last one.
CREATE TABLE quarantine_pod (
    node    text NOT NULL REFERENCES quarantine ON DELETE CASCADE,
    pod_id  uuid NOT NULL,
    PRIMARY KEY (node, pod_id)
);
CREATE INDEX quarantine_pod_pod ON quarantine_pod (pod_id);
INSERT INTO quarantine_pod (node, pod_id) SELECT node, pod_id FROM quarantine WHERE pod_id IS NOT NULL;
