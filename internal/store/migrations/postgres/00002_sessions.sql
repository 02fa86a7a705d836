-- Who is signed in to the dashboard.

-- +goose Up

SET LOCAL lock_timeout = '2s';

CREATE TABLE sessions (
    hash       bytea  PRIMARY KEY, -- SHA-256 of the token
    org        bigint NOT NULL REFERENCES organizations,
    key_id     text   COLLATE "C" NOT NULL, -- of the API key that signed in; '' for none
    subject    text   COLLATE "C" NOT NULL,
    name       bytea  NOT NULL,
    scopes     text   NOT NULL, -- separated by commas
    created_at bigint NOT NULL,
    used_at    bigint NOT NULL,
    idle_at    bigint NOT NULL, -- ends then unless it is used before
    expires_at bigint NOT NULL
) WITH (fillfactor = 70);

-- Finds the sessions of a subject.
CREATE INDEX sessions_by_subject ON sessions (org, key_id, subject);
