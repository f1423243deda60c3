-- Where projects have their pods' events sent. Each webhook has a position in the stream of events (0083), and nothing
-- else is stored about what remains to be sent: so nothing is lost with a process, and events that retention removes
-- are no longer sent.
CREATE TABLE webhook (
    id            uuid         PRIMARY KEY DEFAULT gen_random_uuid(),
    project_id    text         NOT NULL,
    name          text         NOT NULL,
    url           text         NOT NULL,
    -- types of events, and prefixes of codes; empty: all events
    events        text[]       NOT NULL DEFAULT '{}',
    created_by    text         NOT NULL,
    created_at    timestamptz  NOT NULL DEFAULT now(),
    -- secrets are in `secret`, as webhook/ID/NUMBER; until then the previous one is valid, too
    secret_number integer      NOT NULL DEFAULT 1,
    old_until     timestamptz,
    -- the last event that was sent, or left out
    mark          text         NOT NULL,
    life          integer      NOT NULL,
    xact          xid8         NOT NULL,
    sequence      bigint       NOT NULL,
    disabled_at   timestamptz,
    -- why the last attempt failed, or why it is disabled: a message, as in `event`
    reason        jsonb        NOT NULL DEFAULT '""',
    failures      integer      NOT NULL DEFAULT 0,
    failing_since timestamptz,
    delivered     bigint       NOT NULL DEFAULT 0,
    delivered_at  timestamptz,
    next_at       timestamptz  NOT NULL DEFAULT now(),
    -- the fence: a worker's writes only count with the token that it was given
    token         bigint       NOT NULL DEFAULT 0,
    held_until    timestamptz,
    UNIQUE (project_id, name)
);
CREATE INDEX webhook_next ON webhook (next_at) WHERE disabled_at IS NULL;
