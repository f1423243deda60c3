-- For workers, which ask several times a second whether a lease ends.
CREATE INDEX pod_lease_end ON pod (lease_end) WHERE state <> 'RELEASED' AND lease_end IS NOT NULL;
