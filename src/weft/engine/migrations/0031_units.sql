-- How many units of its shape a pod takes (nodes, servers, machines; spares included) is written by the shape:
-- SQL no longer knows what an order of any shape looks like.
ALTER TABLE pod ADD COLUMN units integer NOT NULL DEFAULT 0;
UPDATE pod SET units = coalesce(machines, nodes + spare);
ALTER TABLE pod DROP COLUMN machines;
