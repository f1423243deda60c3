-- What is really on nodes.

-- Why a node's adapters are out of its pod's partition: something else is on the node, or the pod's server isn't.
-- Empty: they are in it.
ALTER TABLE node_hold ADD COLUMN withheld text NOT NULL DEFAULT '';

-- Placement looks up servers, and must not have to read old pods' tombstones.
CREATE INDEX resource_server_gone ON resource (finished_at) WHERE kind = 'server' AND state = 'absent';
