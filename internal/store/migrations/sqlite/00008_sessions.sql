-- Who is signed in to the dashboard.

-- +goose Up

CREATE TABLE sessions (
    hash       BLOB    NOT NULL PRIMARY KEY, -- SHA-256 of the token
    org        INTEGER NOT NULL REFERENCES organizations,
    key_id     TEXT    NOT NULL, -- of the API key that signed in; '' for none
    subject    TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    scopes     TEXT    NOT NULL, -- separated by commas
    created_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL,
    idle_at    INTEGER NOT NULL, -- ends then unless it is used before
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Finds the sessions of a subject, and those used least recently of an organization.
CREATE INDEX sessions_by_subject ON sessions (org, key_id, subject, used_at);
