-- What was read back before an owner's end, of a pod's nodes or another owner's numbers, is part of its receipt.
ALTER TABLE given_back RENAME COLUMN pod_id TO owner_id;
