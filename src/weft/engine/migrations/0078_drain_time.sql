-- At the time of a drain, nodes of pods whose orders ask for it are replaced, unless operators want to wait.
ALTER TABLE drain ADD COLUMN waits boolean NOT NULL DEFAULT false;
-- Drains whose time is over and whose pods have an event about it. Not in `drain`, where it would count as a change of
-- the drain.
CREATE TABLE drain_said (
    node      text         PRIMARY KEY,
    until_at  timestamptz  NOT NULL
);
