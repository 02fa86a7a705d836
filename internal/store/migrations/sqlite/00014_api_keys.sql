-- API keys have a creator, and settings belong to the store, so that all programs on it agree.

-- +goose Up

ALTER TABLE api_keys ADD COLUMN created_by TEXT NOT NULL DEFAULT ''; -- subject of the creator; '': not known

CREATE TABLE settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
