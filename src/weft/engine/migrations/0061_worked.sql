-- For how many seconds a release was worked on, when that was counted last (null: it isn't worked on, the gate is closed),
-- and by which process: its limits count what weft could work on it, in whichever process.
ALTER TABLE owner
    ADD COLUMN worked float8 NOT NULL DEFAULT 0,
    ADD COLUMN worked_at timestamptz,
    ADD COLUMN worked_by text NOT NULL DEFAULT '',
    -- weft asked for it after the limit, not an operator; and what had been worked until it was asked for
    ADD COLUMN abandoned_own boolean NOT NULL DEFAULT false,
    ADD COLUMN abandoned_worked float8 NOT NULL DEFAULT 0;
UPDATE owner SET abandoned_own = true
WHERE state = 'RELEASING' AND abandoned_by = 'weft' AND abandoned_why LIKE 'its release has lasted longer than %';
