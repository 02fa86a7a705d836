-- The keys that tokens for the agent backend are signed with.

-- +goose Up

CREATE TABLE signing_keys (
    signing_key INTEGER PRIMARY KEY, -- grows with every rotation: the newest is never deleted
    id          TEXT    NOT NULL UNIQUE,
    public      BLOB    NOT NULL,
    private     BLOB    NOT NULL, -- encrypted when the servers have a secret
    created_at  INTEGER NOT NULL,
    retired_at  INTEGER NOT NULL DEFAULT 0
) STRICT;

-- One key at most is not retired.
CREATE UNIQUE INDEX signing_keys_current ON signing_keys (retired_at) WHERE retired_at = 0;
