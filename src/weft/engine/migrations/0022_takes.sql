-- Workers claim owners with something to do before those that are only observed, each sort in the order of its time.
CREATE INDEX pod_next_work ON pod (next_at)
    WHERE state <> 'RELEASED' AND (state <> 'READY' OR wanted = 'absent' OR mend OR changed_at IS NOT NULL);
CREATE INDEX pod_next_look ON pod (next_at)
    WHERE state = 'READY' AND wanted = 'present' AND NOT mend AND changed_at IS NULL;
CREATE INDEX owner_next_work ON owner (next_at)
    WHERE state <> 'RELEASED' AND (state <> 'READY' OR wanted = 'absent' OR mend OR changed_at IS NOT NULL);
CREATE INDEX owner_next_look ON owner (next_at)
    WHERE state = 'READY' AND wanted = 'present' AND NOT mend AND changed_at IS NULL;
