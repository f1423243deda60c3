-- What was read back before an owner's end is part of its receipt: of a pod's nodes, and of another owner's numbers.
ALTER TABLE given_back RENAME COLUMN pod_id TO owner_id;
