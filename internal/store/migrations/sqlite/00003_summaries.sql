-- Texts that a language model wrote about insights, and how many it was asked for.

-- +goose Up

CREATE TABLE summaries (
    insight      INTEGER PRIMARY KEY REFERENCES insights ON DELETE CASCADE,
    evidence     BLOB    NOT NULL, -- hash of what the prompt showed
    model        TEXT    NOT NULL,
    prompt       INTEGER NOT NULL, -- version
    generated_at INTEGER NOT NULL,
    content      TEXT    NOT NULL
) STRICT;

CREATE TABLE summary_calls (
    org INTEGER NOT NULL REFERENCES organizations,
    day INTEGER NOT NULL, -- UTC days since 1970; only the last two are kept
    n   INTEGER NOT NULL,
    PRIMARY KEY (org, day)
) STRICT, WITHOUT ROWID;
