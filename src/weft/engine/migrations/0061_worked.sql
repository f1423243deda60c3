-- For how many seconds a release was worked on, when that was last counted (null: it isn't worked on, the gate is
-- closed), and by which process: its limits count the time in which weft could work on it, in any process.
ALTER TABLE owner
    ADD COLUMN worked float8 NOT NULL DEFAULT 0,
    ADD COLUMN worked_at timestamptz,
    ADD COLUMN worked_by text NOT NULL DEFAULT '',
    -- whether weft requested the abandonment after the limit, not an operator; and the seconds worked until it was
    -- requested
    ADD COLUMN abandoned_own boolean NOT NULL DEFAULT false,
    ADD COLUMN abandoned_worked float8 NOT NULL DEFAULT 0;
UPDATE owner SET abandoned_own = true
WHERE state = 'RELEASING' AND abandoned_by = 'weft' AND abandoned_why LIKE 'its release has lasted longer than %';
