-- When the newest backup was taken, for an alarm when it is old.
CREATE TABLE last_backup (
    only      boolean      PRIMARY KEY DEFAULT true CHECK (only),
    taken_at  timestamptz  NOT NULL
);
