-- Workers take releases apart from what is made, so that none waits behind a thousand pods that boot.
CREATE INDEX pod_next_release ON pod (next_at) WHERE wanted = 'absent' AND state <> 'RELEASED';
CREATE INDEX owner_next_release ON owner (next_at) WHERE wanted = 'absent' AND state <> 'RELEASED';
