-- What a node's own checks (weft-check) last reported. `problems` are the checks that failed or are unknown, each with
-- the time since when; a failed one stays until a later report says otherwise.
CREATE TABLE node_check (
    node      text         PRIMARY KEY,
    at        timestamptz  NOT NULL,
    status    text         NOT NULL,
    -- digest of the expected values that the node was checked against
    expected  text,
    problems  jsonb        NOT NULL,
    document  jsonb        NOT NULL
);
CREATE INDEX node_check_at ON node_check (at);
CREATE TRIGGER node_check_came AFTER INSERT ON node_check REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_stop();
CREATE TRIGGER node_check_went AFTER DELETE ON node_check REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_stop();
CREATE TRIGGER node_check_is AFTER UPDATE ON node_check REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_stop();
CREATE TRIGGER node_check_emptied AFTER TRUNCATE ON node_check FOR EACH STATEMENT EXECUTE FUNCTION note_all();

-- Tokens with which a node reports its checks. The secret isn't here, only its SHA-256.
CREATE TABLE check_token (
    id          text         PRIMARY KEY,
    node        text         NOT NULL,
    digest      bytea        NOT NULL CHECK (length(digest) = 32),
    made_at     timestamptz  NOT NULL,
    made_by     text         NOT NULL,
    expires_at  timestamptz  NOT NULL,
    used_at     timestamptz
);
CREATE INDEX check_token_node ON check_token (node);
