-- The user that connected an organization of GitHub has to remain its owner. Older programs
-- do not ask, and leave the column as it is.

-- +goose Up

SET LOCAL lock_timeout = '2s';

ALTER TABLE installations ADD COLUMN owner_id bigint NOT NULL DEFAULT 0; -- of the user, at the provider; 0: not known
