-- Stable hashes are keyed with a secret of the organization, so that no sender can
-- choose names that collide, and keys of claims have 128 bits. What older versions
-- stored stays until it leaves the window. Its key_high is 0, which no keyed hash has, so
-- that it never meets what is stored now. Replicas of the version before go on: they see
-- the lower 64 bits of the keys.

-- +goose Up

SET LOCAL lock_timeout = '2s';

ALTER TABLE organizations ADD COLUMN hash_key bytea; -- 32 random bytes; NULL: not used yet
ALTER TABLE claims ADD COLUMN key_high bigint NOT NULL DEFAULT 0; -- upper 64 bits of the key; 0: key is all of it
