-- Workers take what has something to do before what is only looked at: each in the order of its time.
CREATE INDEX pod_next_work ON pod (next_at)
    WHERE state <> 'RELEASED' AND (state <> 'READY' OR wanted = 'absent' OR mend OR changed_at IS NOT NULL);
CREATE INDEX pod_next_look ON pod (next_at)
    WHERE state = 'READY' AND wanted = 'present' AND NOT mend AND changed_at IS NULL;
CREATE INDEX owner_next_work ON owner (next_at)
    WHERE state <> 'RELEASED' AND (state <> 'READY' OR wanted = 'absent' OR mend OR changed_at IS NOT NULL);
CREATE INDEX owner_next_look ON owner (next_at)
    WHERE state = 'READY' AND wanted = 'present' AND NOT mend AND changed_at IS NULL;
