-- Whether the pod no longer wants the server; its part is freed once it was read back clean, like whole nodes.
ALTER TABLE part_hold ADD COLUMN leaving boolean NOT NULL DEFAULT false;
