-- Signed certificates of bandwidth tests. `results`: name of each node, or of a pod's server -> its result.
CREATE TABLE bandwidth_certificate (
    id        uuid         PRIMARY KEY,
    -- null: nodes without a pod, tested by operators
    pod_id    uuid,
    at        timestamptz  NOT NULL,
    results   jsonb        NOT NULL,
    document  jsonb        NOT NULL
);
CREATE INDEX bandwidth_certificate_pod ON bandwidth_certificate (pod_id, at DESC);
CREATE INDEX bandwidth_certificate_node ON bandwidth_certificate USING gin (results) WHERE pod_id IS NULL;
