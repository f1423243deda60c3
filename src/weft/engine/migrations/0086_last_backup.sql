-- When the newest backup was taken, for an alarm when it is old.
CREATE TABLE last_backup (
    singleton boolean      PRIMARY KEY DEFAULT true CHECK (singleton),
    taken_at  timestamptz  NOT NULL
);
