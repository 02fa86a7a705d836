-- Log volume is in the store: how many log records were accepted, by minute and, after
-- two days, by hour. Older programs keep it in a directory of their own, which a server
-- imports when it starts. They go on using log_records, which programs of this version
-- do not read or write; a later migration drops it.

-- +goose Up

SET LOCAL lock_timeout = '2s';

-- The rows of the current minute are updated by every commit.
CREATE TABLE log_volume (
    org         bigint NOT NULL REFERENCES organizations,
    span        bigint NOT NULL, -- seconds: 60 or 3600
    at          bigint NOT NULL, -- start of the minute or hour, Unix seconds
    trace       bigint NOT NULL, -- log records by severity
    debug       bigint NOT NULL,
    info        bigint NOT NULL,
    warn        bigint NOT NULL,
    error       bigint NOT NULL,
    fatal       bigint NOT NULL,
    unspecified bigint NOT NULL,
    PRIMARY KEY (org, span, at)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

-- What is merged or expires, of all organizations.
CREATE INDEX log_volume_by_time ON log_volume (span, at);
