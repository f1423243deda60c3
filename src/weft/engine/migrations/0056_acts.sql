-- Until when a tenant's request for a server may still take effect while its outcome is unknown: Ironic's requests name a
-- machine and not its server, and the machine is another pod's after a release.
ALTER TABLE owner ADD COLUMN acts_until timestamptz;
