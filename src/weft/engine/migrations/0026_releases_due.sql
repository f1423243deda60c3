-- Workers claim releases separately, so that none waits behind a thousand booting pods.
CREATE INDEX pod_next_release ON pod (next_at) WHERE wanted = 'absent' AND state <> 'RELEASED';
CREATE INDEX owner_next_release ON owner (next_at) WHERE wanted = 'absent' AND state <> 'RELEASED';
