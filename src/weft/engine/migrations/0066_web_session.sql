-- Sessions of the console in the browser. The cookie's id isn't here, only its SHA-256; what is sealed can be opened with
-- the id alone. Neither the database nor a browser has a user's token.
CREATE TABLE web_session (
    digest bytea PRIMARY KEY CHECK (length(digest) = 32),
    sealed bytea NOT NULL,
    user_id text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX web_session_user ON web_session (user_id, created_at);
CREATE INDEX web_session_end ON web_session (expires_at);
