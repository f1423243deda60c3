-- Dates get bounds, unreadable rows are parked, a new holder waits for the previous one's last writes, and what
-- placement reads of every pod is in rows of its own.

-- Limits of orders from this version on: no date outside 2000 to 2200, no duration beyond 36500 days. Text is compared,
-- not cast, since an invalid date must not stop the migration.
CREATE FUNCTION pg_temp.bounded(document jsonb, at text[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT CASE
        WHEN document #>> at < '2000' THEN jsonb_set(document, at, '"2000-01-01T00:00:00Z"')
        WHEN document #>> at > '2199-12-31' AND at[array_upper(at, 1)] = 'start'
            THEN jsonb_set(document, at, '"2199-12-31T00:00:00Z"')
        WHEN document #>> at > '2199-12-31' THEN jsonb_set(document, at, '"2200-01-01T00:00:00Z"')
        ELSE document END
$$;
CREATE FUNCTION pg_temp.shorter(document jsonb, at text[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT CASE
        WHEN document #>> at ~ '^[0-9]{5,7}d$' AND rtrim(document #>> at, 'd')::integer > 36500
            OR document #>> at ~ '^[0-9]{6,7}h$' AND rtrim(document #>> at, 'h')::integer > 876000
            THEN jsonb_set(document, at, '"36500d"')
        ELSE document END
$$;
UPDATE pod SET
    ordered = pg_temp.shorter(pg_temp.bounded(pg_temp.bounded(ordered, '{lease,start}'), '{lease,end}'), '{lease,duration}'),
    plan = pg_temp.shorter(pg_temp.bounded(pg_temp.bounded(plan,
        '{order,lease,start}'), '{order,lease,end}'), '{order,lease,duration}')
WHERE ordered #>> '{lease,start}' IS NOT NULL OR ordered #>> '{lease,end}' IS NOT NULL
    OR ordered #>> '{lease,duration}' IS NOT NULL;
UPDATE site SET document = pg_temp.shorter(pg_temp.shorter(document, '{queue,half_life}'), '{queue,patience}')
WHERE document ? 'queue';

UPDATE pod SET
    lease_end = least(lease_end, '2400-01-01 00:00:00+00'),
    not_before = least(not_before, '2400-01-01 00:00:00+00'),
    expected_start = least(expected_start, '2400-01-01 00:00:00+00')
WHERE greatest(lease_end, not_before, expected_start) > '2400-01-01 00:00:00+00';
UPDATE promise SET start_at = least(start_at, '2400-01-01 00:00:00+00'), end_at = least(end_at, '2400-01-01 00:00:00+00');
UPDATE reservation
SET start_at = least(start_at, '2400-01-01 00:00:00+00'), end_at = least(end_at, '2400-01-01 00:00:00+00');

ALTER TABLE pod
    ADD CONSTRAINT pod_lease_end CHECK (lease_end BETWEEN '2000-01-01 00:00:00+00' AND '2400-01-01 00:00:00+00'),
    ADD CONSTRAINT pod_not_before CHECK (not_before BETWEEN '2000-01-01 00:00:00+00' AND '2400-01-01 00:00:00+00'),
    ADD CONSTRAINT pod_expected_start
        CHECK (expected_start BETWEEN '2000-01-01 00:00:00+00' AND '2400-01-01 00:00:00+00'),
    -- why this row can't be read; it is tried again at next_at
    ADD COLUMN parked text,
    -- until then, a worker that lost the pod may have a request under way: nothing is freed before
    ADD COLUMN late_until timestamptz,
    ADD COLUMN cloud text GENERATED ALWAYS AS (plan ->> 'cloud') STORED,
    ADD COLUMN machines integer GENERATED ALWAYS AS ((ordered -> 'ipus' ->> 'count')::integer / 4) STORED;
ALTER TABLE promise
    ADD CONSTRAINT promise_times CHECK (
        start_at BETWEEN '2000-01-01 00:00:00+00' AND '2400-01-01 00:00:00+00'
        AND end_at BETWEEN '2000-01-01 00:00:00+00' AND '2400-01-01 00:00:00+00');
ALTER TABLE reservation
    ADD CONSTRAINT reservation_times CHECK (
        start_at BETWEEN '2000-01-01 00:00:00+00' AND '2400-01-01 00:00:00+00'
        AND end_at BETWEEN '2000-01-01 00:00:00+00' AND '2400-01-01 00:00:00+00');

CREATE INDEX pod_live ON pod (created_at, id) WHERE state <> 'RELEASED' AND plan IS NOT NULL;
CREATE INDEX pod_waiting_of ON pod (project_id) WHERE plan IS NULL AND state = 'PENDING';

-- Subnets from the site's blocks. Those that an order names itself aren't here: pods' networks are isolated, so they
-- may be any, and take nothing from others.
CREATE TABLE subnet_hold (
    cloud   text NOT NULL,
    plane   text NOT NULL CHECK (plane IN ('rdma', 'management')),
    cidr    text NOT NULL,
    pod_id  uuid NOT NULL,
    PRIMARY KEY (cloud, plane, cidr)
);
CREATE INDEX subnet_hold_pod ON subnet_hold (pod_id);
INSERT INTO subnet_hold (cloud, plane, cidr, pod_id)
SELECT cloud, 'rdma', plan #>> '{allotment,rdma_cidr}', id FROM pod
WHERE state <> 'RELEASED' AND plan IS NOT NULL AND ordered #>> '{network,rdma}' IS NULL
    AND ordered ->> 'ipus' IS NULL
    AND cloud IS NOT NULL AND plan #>> '{allotment,rdma_cidr}' IS NOT NULL
ON CONFLICT DO NOTHING;
INSERT INTO subnet_hold (cloud, plane, cidr, pod_id)
SELECT cloud, 'management', plan #>> '{allotment,management_cidr}', id FROM pod
WHERE state <> 'RELEASED' AND plan IS NOT NULL AND ordered #>> '{network,management}' IS NULL
    AND cloud IS NOT NULL AND plan #>> '{allotment,management_cidr}' IS NOT NULL
ON CONFLICT DO NOTHING;
