-- How far a pod or another owner is (phase) and how it is (conditions) become separate. `state`, `reason` and `since`
-- stay as their summary, for lists and counts; weft reads phase and conditions, and writes both together.
ALTER TABLE owner
    ADD COLUMN phase text NOT NULL DEFAULT 'ordered'
        CHECK (phase IN ('ordered', 'building', 'serving', 'releasing', 'released')),
    ADD COLUMN conditions jsonb NOT NULL DEFAULT '[]';

-- Where a pod that failed was at work.
CREATE TEMPORARY TABLE at_work ON COMMIT DROP AS
SELECT id, CASE WHEN state <> 'FAILED' THEN state WHEN plan IS NULL THEN 'PENDING'
    ELSE coalesce(failed_from, 'DEGRADED') END AS state FROM pod;

UPDATE pod SET phase = CASE
    WHEN w.state = 'RELEASED' THEN 'released'
    WHEN w.state = 'RELEASING' THEN 'releasing'
    WHEN w.state = 'PENDING' THEN 'ordered'
    WHEN w.state IN ('READY', 'DEGRADED') THEN 'serving'
    ELSE 'building' END
FROM at_work w WHERE w.id = pod.id;

UPDATE pod SET conditions = coalesce((
    SELECT jsonb_agg(jsonb_build_object('type', c.type, 'status', c.status, 'reason', c.reason, 'since', pod.since,
        'message', CASE WHEN c.decides THEN pod.reason ELSE '' END) ORDER BY c.place)
    FROM (VALUES
        (1, 'Wired', 'false', 'UnderWay', ARRAY['WIRING'], true),
        (1, 'Wired', 'true', 'Done', ARRAY['BOOTING', 'VERIFYING', 'READY', 'DEGRADED'], false),
        (2, 'Booted', 'false', 'UnderWay', ARRAY['BOOTING'], true),
        (2, 'Booted', 'true', 'Done', ARRAY['VERIFYING', 'READY', 'DEGRADED'], false),
        (3, 'Ready', 'unknown', 'UnderWay', ARRAY['VERIFYING'], true),
        (3, 'Ready', 'true', 'Done', ARRAY['READY'], true),
        (3, 'Ready', 'false', 'Different', ARRAY['DEGRADED'], true),
        (4, 'Failed', 'true', 'PersonNeeded', ARRAY['FAILED'], true),
        (5, 'Clean', 'false', 'UnderWay', ARRAY['RELEASING'], true),
        (5, 'Clean', 'true', 'Done', ARRAY['RELEASED'], true)
    ) AS c (place, type, status, reason, states, decides)
    WHERE w.state = ANY(c.states) OR pod.state = ANY(c.states)
), '[]')
FROM at_work w WHERE w.id = pod.id;

ALTER TABLE owner DROP COLUMN failed_from;
ALTER TABLE pod DROP COLUMN failed_from;
