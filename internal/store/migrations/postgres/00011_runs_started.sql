-- A claim reads when the last run of an organization began or ended. Runs that were
-- cancelled before they began may outnumber the others.

-- +goose Up

SET LOCAL lock_timeout = '2s';

CREATE INDEX runs_started ON runs (org, run) WHERE started_at > 0;
