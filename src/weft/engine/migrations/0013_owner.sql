-- What is outside belongs to an owner: a pod, the site, or a network that a tenant created. What the loop, the audit
-- and the sweep need of each is in `owner`; a pod is an owner with more columns. Queries of `owner` include pods.
CREATE TABLE owner (
    id           uuid        PRIMARY KEY,
    kind         text        NOT NULL CHECK (kind IN ('site', 'network')) NO INHERIT,
    -- the site whose mark its things carry; null: it has nothing outside (a waiting order)
    site         text,
    project_id   text        NOT NULL,
    name         text        NOT NULL,
    created_by   text        NOT NULL,
    created_at   timestamptz NOT NULL,
    wanted       text        NOT NULL DEFAULT 'present' CHECK (wanted IN ('present', 'absent')) NO INHERIT,
    mend         boolean     NOT NULL DEFAULT false,
    state        text        NOT NULL,
    reason       text        NOT NULL DEFAULT '',
    since        timestamptz NOT NULL,
    alarmed      boolean     NOT NULL DEFAULT false,
    released_at  timestamptz,
    next_at      timestamptz NOT NULL,
    failures     integer     NOT NULL DEFAULT 0,
    woken        bigint      NOT NULL DEFAULT 0,
    worker       text,
    token        bigint      NOT NULL DEFAULT 0,
    held_until   timestamptz,
    late_until   timestamptz,
    parked       text,
    failed_from  text,
    swept_at     timestamptz
);
CREATE UNIQUE INDEX owner_live_name ON owner (kind, project_id, name) WHERE state <> 'RELEASED';
CREATE INDEX owner_next ON owner (next_at) WHERE state <> 'RELEASED';
CREATE INDEX owner_released ON owner (released_at) WHERE state = 'RELEASED';

ALTER TABLE pod
    ADD COLUMN kind text NOT NULL DEFAULT 'pod' CHECK (kind = 'pod'),
    ADD COLUMN site text;
UPDATE pod SET site = plan ->> 'site';
ALTER TABLE pod INHERIT owner;
