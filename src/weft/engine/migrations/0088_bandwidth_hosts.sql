-- The pod's nodes on which its certificate was measured: after a replacement it proves nothing about the new one.
ALTER TABLE bandwidth_certificate ADD COLUMN hosts text[] NOT NULL DEFAULT '{}';
