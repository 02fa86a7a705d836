-- What a language model was used for changes of code, for the budget of a day.
-- Replicas of the version before go on: they do not know it.

-- +goose Up

SET LOCAL lock_timeout = '2s';

CREATE TABLE model_usage (
    org    bigint NOT NULL REFERENCES organizations,
    day    bigint NOT NULL, -- UTC days since 1970; only the last two are kept
    tokens bigint NOT NULL,
    cost   bigint NOT NULL, -- millionths of the currency
    PRIMARY KEY (org, day)
) WITH (fillfactor = 50);
