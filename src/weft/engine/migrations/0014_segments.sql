-- A fabric's partition becomes a segment, the same on every type of fabric. Documents stay as they are
-- (model/upcast.py).

UPDATE resource SET kind = 'segment' WHERE kind = 'partition';
UPDATE trace SET kind = 'segment' WHERE kind = 'partition';
UPDATE trace SET kind = 'membership' WHERE kind = 'p_key';
DROP INDEX resource_partition;
CREATE INDEX resource_segment ON resource (pod_id) WHERE kind = 'segment';

ALTER TABLE stale_key RENAME TO stale_number;
UPDATE number_hold SET space = 'segment/' || substr(space, 6) WHERE space LIKE 'pkey/%';

ALTER TABLE pod DROP COLUMN pkey;
ALTER TABLE pod ADD COLUMN segment text
    GENERATED ALWAYS AS (coalesce(plan -> 'allotment' ->> 'segment', plan -> 'allotment' ->> 'pkey')) STORED;
