-- Whether the pod doesn't want the server any more; its part is given back once it was read back clean, as whole nodes are.
ALTER TABLE part_hold ADD COLUMN leaving boolean NOT NULL DEFAULT false;
