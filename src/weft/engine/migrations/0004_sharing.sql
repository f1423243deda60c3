-- What pods require of their leaves, and which of their nodes are spares.

-- Columns of their own, like `nodes`: placement reads them for every pod.
ALTER TABLE pod
    ADD COLUMN spare integer GENERATED ALWAYS AS (coalesce((ordered -> 'nodes' ->> 'spare')::integer, 0)) STORED,
    ADD COLUMN apart_from jsonb GENERATED ALWAYS AS (coalesce(ordered -> 'locality' -> 'apart_from', '[]')) STORED,
    ADD COLUMN exclusive boolean
        GENERATED ALWAYS AS (coalesce((ordered -> 'locality' ->> 'exclusive')::boolean, false)) STORED,
    ADD COLUMN bisection_gbps integer
        GENERATED ALWAYS AS (coalesce((ordered -> 'fabric' ->> 'bisection_gbps')::integer, 0)) STORED;

-- A spare: a node that is held idle for its pod, to replace one that fails.
ALTER TABLE node_hold ADD COLUMN spare boolean NOT NULL DEFAULT false;
