-- The metric series of each service, for what a service costs, and an index over
-- the active insights, so that what their fixes would save is read without the
-- evidence.

-- +goose Up

CREATE TABLE series (
    svc    INTEGER PRIMARY KEY REFERENCES services ON DELETE CASCADE,
    oldest INTEGER NOT NULL, -- bucket of the one longest not seen
    n      INTEGER NOT NULL, -- how many there are
    facts  BLOB    NOT NULL
) STRICT;

CREATE INDEX series_by_oldest ON series (oldest);
CREATE INDEX series_counts ON series (svc, n);

CREATE INDEX insights_active ON insights (org, svc, rule) WHERE status = 1;
