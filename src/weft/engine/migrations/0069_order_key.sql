-- The pod that an order with an Idempotency-Key made, or will make: a repeated order gets that pod, even if it has been
-- released since. The id is chosen before the pod is written, so that only one of two simultaneous attempts writes it.
CREATE TABLE order_key (
    project_id text NOT NULL,
    user_id text NOT NULL,
    key text NOT NULL,
    digest bytea NOT NULL CHECK (length(digest) = 32),
    pod_id uuid NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (project_id, user_id, key)
);
CREATE INDEX order_key_at ON order_key (at);
