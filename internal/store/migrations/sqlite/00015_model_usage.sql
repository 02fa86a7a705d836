-- What a language model was used for changes of code, for the budget of a day.

-- +goose Up

CREATE TABLE model_usage (
    org    INTEGER NOT NULL REFERENCES organizations,
    day    INTEGER NOT NULL, -- UTC days since 1970; only the last two are kept
    tokens INTEGER NOT NULL,
    cost   INTEGER NOT NULL, -- millionths of the currency
    PRIMARY KEY (org, day)
) STRICT, WITHOUT ROWID;
