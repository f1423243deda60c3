-- Sessions of the console in the browser. Only the SHA-256 of the cookie's id is here, and `sealed` can only be opened
-- with the id. Neither the database nor a browser alone has a user's token.
CREATE TABLE web_session (
    digest bytea PRIMARY KEY CHECK (length(digest) = 32),
    sealed bytea NOT NULL,
    user_id text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX web_session_user ON web_session (user_id, created_at);
CREATE INDEX web_session_end ON web_session (expires_at);
