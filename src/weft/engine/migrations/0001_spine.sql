-- The spine's tables. Rows of children have no ON DELETE CASCADE on purpose: they outlive the parent.

CREATE TABLE site (
    generation  integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text        NOT NULL,
    document    jsonb       NOT NULL,
    applied_at  timestamptz NOT NULL,
    applied_by  text        NOT NULL
);

CREATE TABLE pod (
    id           uuid        PRIMARY KEY,
    project_id   text        NOT NULL,
    name         text        NOT NULL,
    created_by   text        NOT NULL,
    created_at   timestamptz NOT NULL,
    -- the order and the plan made from it, as model documents
    plan         jsonb       NOT NULL,
    wanted       text        NOT NULL DEFAULT 'present' CHECK (wanted IN ('present', 'absent')),
    -- an operator asked to repair servers, too, which the loop doesn't recreate on its own
    mend         boolean     NOT NULL DEFAULT false,
    state        text        NOT NULL,
    reason       text        NOT NULL DEFAULT '',
    since        timestamptz NOT NULL,
    -- whether an alarm that this state lasts too long was raised
    alarmed      boolean     NOT NULL DEFAULT false,
    lease_end    timestamptz,
    released_at  timestamptz,
    -- for the loop: when the next visit is due, how often in a row visits failed, how often it was woken
    next_at      timestamptz NOT NULL,
    failures     integer     NOT NULL DEFAULT 0,
    woken        bigint      NOT NULL DEFAULT 0,
    -- the fence: a worker's writes are only accepted with the token that it was given; tokens only increase
    worker       text,
    token        bigint      NOT NULL DEFAULT 0,
    held_until   timestamptz
);
CREATE UNIQUE INDEX pod_live_name ON pod (project_id, name) WHERE state <> 'RELEASED';
CREATE INDEX pod_next ON pod (next_at) WHERE state <> 'RELEASED';

CREATE TABLE resource (
    pod_id       uuid        NOT NULL,
    key          text        NOT NULL,
    kind         text        NOT NULL,
    position     integer     NOT NULL,
    document     jsonb       NOT NULL,
    state        text        NOT NULL DEFAULT 'wanted',
    outside_id   text,
    reason       text        NOT NULL DEFAULT '',
    differences  jsonb       NOT NULL DEFAULT '[]',
    facts        jsonb       NOT NULL DEFAULT '{}',
    attempts     integer     NOT NULL DEFAULT 0,
    started_at   timestamptz,
    finished_at  timestamptz,
    PRIMARY KEY (pod_id, key)
);

-- Capacity. A node, P_Key or VLAN is held by at most one pod, and freed last.
CREATE TABLE node_hold (
    node    text PRIMARY KEY,
    pod_id  uuid        NOT NULL,
    since   timestamptz NOT NULL
);
CREATE INDEX node_hold_pod ON node_hold (pod_id);

CREATE TABLE number_hold (
    space   text    NOT NULL,
    number  integer NOT NULL,
    pod_id  uuid    NOT NULL,
    PRIMARY KEY (space, number)
);
CREATE INDEX number_hold_pod ON number_hold (pod_id);

CREATE TABLE quarantine (
    node    text PRIMARY KEY,
    reason  text        NOT NULL,
    since   timestamptz NOT NULL,
    pod_id  uuid
);

CREATE TABLE event (
    sequence  bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pod_id    uuid        NOT NULL,
    at        timestamptz NOT NULL,
    type      text        NOT NULL,
    message   text        NOT NULL,
    key       text
);
CREATE INDEX event_pod ON event (pod_id, sequence);

CREATE TABLE audit_log (
    sequence    bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL,
    user_name   text        NOT NULL,
    project_id  text,
    action      text        NOT NULL,
    subject     text        NOT NULL,
    address     text        NOT NULL,
    request_id  text        NOT NULL,
    outcome     text        NOT NULL
);

CREATE TABLE receipt (
    pod_id    uuid        PRIMARY KEY,
    document  jsonb       NOT NULL,
    at        timestamptz NOT NULL
);

CREATE TABLE secret (
    name   text  PRIMARY KEY,
    value  bytea NOT NULL
);
