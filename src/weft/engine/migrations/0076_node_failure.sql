-- Nodes of pods that are known to fail now. They follow from what was observed or reported, and are computed again
-- before each turn. What is kept is when the next turn tries to replace a node, and why the last one didn't.
CREATE TABLE node_failure (
    pod_id    uuid         NOT NULL,
    node      text         NOT NULL,
    kind      text         NOT NULL,
    since     timestamptz  NOT NULL,
    -- whether the pod's order asks for a replacement
    replaces  boolean      NOT NULL,
    tried     integer      NOT NULL DEFAULT 0,
    next_at   timestamptz  NOT NULL,
    -- a message; empty: it wasn't tried yet
    why       jsonb        NOT NULL DEFAULT '""',
    PRIMARY KEY (pod_id, node)
);
CREATE INDEX node_failure_next ON node_failure (next_at) WHERE replaces;
-- Replacements that weft began by itself, which a site limits.
CREATE TABLE own_replacement (
    pod_id      uuid         NOT NULL,
    generation  integer      NOT NULL,
    by_node     text         NOT NULL,
    at          timestamptz  NOT NULL,
    PRIMARY KEY (pod_id, generation)
);
CREATE INDEX own_replacement_at ON own_replacement (at);
