-- API keys have a creator, and settings belong to the store, so that all programs on it agree.
-- Replicas of the version before go on: they know neither.

-- +goose Up

SET LOCAL lock_timeout = '2s';

ALTER TABLE api_keys ADD COLUMN created_by bytea NOT NULL DEFAULT ''; -- subject of the creator; '': not known

CREATE TABLE settings (
    name  text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL
);
