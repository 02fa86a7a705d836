-- Log volume is in the store: how many log records were accepted, by minute and, after
-- two days, by hour. Older programs keep it in a directory beside the store, which a
-- server imports when it starts. They go on using log_records, which programs of this
-- version do not read or write; a later migration drops it.

-- +goose Up

CREATE TABLE log_volume (
    org         INTEGER NOT NULL REFERENCES organizations,
    span        INTEGER NOT NULL, -- seconds: 60 or 3600
    at          INTEGER NOT NULL, -- start of the minute or hour, Unix seconds
    trace       INTEGER NOT NULL, -- log records by severity
    debug       INTEGER NOT NULL,
    info        INTEGER NOT NULL,
    warn        INTEGER NOT NULL,
    error       INTEGER NOT NULL,
    fatal       INTEGER NOT NULL,
    unspecified INTEGER NOT NULL,
    PRIMARY KEY (org, span, at)
) STRICT, WITHOUT ROWID;

-- What is merged or expires, of all organizations.
CREATE INDEX log_volume_by_time ON log_volume (span, at, org);
