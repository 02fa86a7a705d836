-- How many log records were accepted, for log volume: a monitoring system and the
-- embedded metrics store go on counting from here after a restart, so nothing here
-- ever decreases or expires.

-- +goose Up

CREATE TABLE log_records (
    org      INTEGER NOT NULL REFERENCES organizations,
    severity INTEGER NOT NULL, -- smallest OpenTelemetry severity number of its range, 0 for unspecified
    n        INTEGER NOT NULL,
    PRIMARY KEY (org, severity)
) STRICT, WITHOUT ROWID;
