-- The number of stored claims is limited for each organization. The expiry counts them
-- once an hour, so that the number is also right after claims of older programs, which do
-- not count.

-- +goose Up

ALTER TABLE organizations ADD COLUMN claims INTEGER NOT NULL DEFAULT 0;
