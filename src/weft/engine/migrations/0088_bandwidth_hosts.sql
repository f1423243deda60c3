-- Nodes that a pod had on which its certificate was measured: after a replacement it proves nothing.
ALTER TABLE bandwidth_certificate ADD COLUMN hosts text[] NOT NULL DEFAULT '{}';
