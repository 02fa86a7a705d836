-- The number of stored claims is limited for each organization. The expiry counts them
-- once an hour, so that the number is also right after claims of older programs, which do
-- not count.

-- +goose Up

SET LOCAL lock_timeout = '2s';

ALTER TABLE organizations ADD COLUMN claims bigint NOT NULL DEFAULT 0;
