-- Certificates of agents (kind agent) and weft's own for them (kind own: agent is the host and the file): what was last
-- read, what was issued, and when it is read again. `message`: its state, as a code with values.
CREATE TABLE agent_certificate (
    fabric text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('agent', 'own')),
    agent text NOT NULL,
    serial text,
    not_before timestamptz,
    not_after timestamptz,
    seen_at timestamptz,
    issued_at timestamptz,
    message jsonb NOT NULL DEFAULT '""',
    next_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (fabric, kind, agent)
);
CREATE INDEX agent_certificate_due ON agent_certificate (next_at);

-- Each certificate that weft has signed, kept until 90 days after its end.
CREATE TABLE issued_certificate (
    serial text PRIMARY KEY,
    fabric text NOT NULL,
    kind text NOT NULL,
    agent text NOT NULL,
    issued_at timestamptz NOT NULL DEFAULT now(),
    not_after timestamptz NOT NULL
);
CREATE INDEX issued_certificate_end ON issued_certificate (not_after);
