-- Until when what a tenant had asked of a server may still take effect, as long as nobody knows its answer: Ironic's requests
-- name a machine and not its server, and the machine is another's after a release.
ALTER TABLE owner ADD COLUMN acts_until timestamptz;
