-- The first schema.
--
-- Conventions:
--   * Times are microseconds since 1970, UTC; 0 means none. Buckets are seconds.
--   * Ids of organizations, services, insights and scores are UUIDs of 16 bytes.
--     Rows refer to each other by small integers, which are never used again.
--   * Rules are the numbers of package codec. Rule 2 is RES-002.
--   * Facts that are many for one service and always read and written together
--     are one value, encoded by package codec.

-- +goose Up

CREATE TABLE organizations (
    org              INTEGER PRIMARY KEY AUTOINCREMENT,
    id               BLOB    NOT NULL UNIQUE,
    name             TEXT    NOT NULL UNIQUE,
    external_id      TEXT    UNIQUE, -- NULL: none
    tier             TEXT    NOT NULL,
    created_at       INTEGER NOT NULL,
    score            REAL,
    score_updated_at INTEGER NOT NULL DEFAULT 0,
    claims_revision  INTEGER NOT NULL DEFAULT 0 -- grows with every change of a claim
) STRICT;

CREATE TABLE api_keys (
    id           TEXT    NOT NULL PRIMARY KEY,
    org          INTEGER NOT NULL REFERENCES organizations,
    name         TEXT    NOT NULL,
    hash         BLOB    NOT NULL,
    scopes       TEXT    NOT NULL, -- separated by commas
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL DEFAULT 0,
    revoked_at   INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE services (
    svc              INTEGER PRIMARY KEY AUTOINCREMENT,
    id               BLOB    NOT NULL UNIQUE,
    org              INTEGER NOT NULL REFERENCES organizations,
    namespace        TEXT    NOT NULL,
    name             TEXT    NOT NULL,
    environment      TEXT    NOT NULL,
    version          TEXT    NOT NULL,
    first_seen_at    INTEGER NOT NULL,
    last_seen_at     INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    revision         INTEGER NOT NULL, -- grows with every change of the facts
    scored_revision  INTEGER NOT NULL DEFAULT 0, -- the revision last scored
    tally            BLOB    NOT NULL, -- sum of the service's rows of hours
    -- The current score; score_id is NULL when there is none.
    score_id         BLOB,
    score            REAL,
    score_evaluated  INTEGER, -- sets of rules, one bit each
    score_failed     INTEGER,
    score_at         INTEGER,
    score_window     INTEGER, -- microseconds
    score_created_at INTEGER
) STRICT;

CREATE INDEX services_by_name ON services (org, name, environment, version, id);
CREATE INDEX services_unscored ON services (org) WHERE revision > scored_revision;

-- What was counted of a service in one step of the window. The bucket leads the
-- key: what is written now lies together, and so does what expires.
CREATE TABLE hours (
    bucket INTEGER NOT NULL,
    svc    INTEGER NOT NULL,
    tally  BLOB    NOT NULL,
    PRIMARY KEY (bucket, svc)
) STRICT, WITHOUT ROWID;

CREATE TABLE examples (
    svc   INTEGER PRIMARY KEY REFERENCES services ON DELETE CASCADE,
    facts BLOB NOT NULL
) STRICT;

CREATE TABLE items (
    svc    INTEGER PRIMARY KEY REFERENCES services ON DELETE CASCADE,
    oldest INTEGER NOT NULL, -- smallest bucket in facts
    facts  BLOB    NOT NULL
) STRICT;

CREATE INDEX items_by_oldest ON items (oldest);

-- Keys and values are hashes.
CREATE TABLE claims (
    svc        INTEGER NOT NULL REFERENCES services ON DELETE CASCADE,
    rule       INTEGER NOT NULL,
    key        INTEGER NOT NULL,
    value      INTEGER NOT NULL,
    last       INTEGER NOT NULL, -- newest bucket
    org        INTEGER NOT NULL,
    key_text   TEXT    NOT NULL,
    value_text TEXT    NOT NULL,
    written_at INTEGER NOT NULL, -- of RES-002 only, else 0
    PRIMARY KEY (svc, rule, key, value)
) STRICT, WITHOUT ROWID;

-- Finds the keys with two values; it lacks what changes every hour.
CREATE INDEX claims_by_key ON claims (org, rule, key, value);
-- RES-002 claims by the hour: most are uncontested and forgotten after a day.
CREATE INDEX claims_instances ON claims (written_at) WHERE rule = 2;

CREATE TABLE distinct_sets (
    hour       INTEGER NOT NULL,
    svc        INTEGER NOT NULL,
    rule       INTEGER NOT NULL,
    key        INTEGER NOT NULL,
    last       INTEGER NOT NULL, -- newest bucket
    full       INTEGER NOT NULL, -- 1: reached its limit, holds no values any more
    written_at INTEGER NOT NULL,
    members    BLOB    NOT NULL,
    PRIMARY KEY (hour, svc, rule, key)
) STRICT, WITHOUT ROWID;

-- Requests seen in the last minutes, so that a repeated one counts once.
CREATE TABLE requests (
    org    INTEGER NOT NULL,
    signal INTEGER NOT NULL,
    hash   BLOB    NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (org, signal, hash)
) STRICT, WITHOUT ROWID;

CREATE INDEX requests_by_time ON requests (at);

-- The history of scores.
CREATE TABLE scores (
    svc           INTEGER NOT NULL REFERENCES services ON DELETE CASCADE,
    calculated_at INTEGER NOT NULL,
    id            BLOB    NOT NULL,
    score         REAL    NOT NULL,
    evaluated     INTEGER NOT NULL,
    failed        INTEGER NOT NULL,
    span          INTEGER NOT NULL, -- the window, microseconds
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (svc, calculated_at, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX scores_by_time ON scores (calculated_at);

CREATE TABLE insights (
    insight      INTEGER PRIMARY KEY,
    id           BLOB    NOT NULL UNIQUE,
    org          INTEGER NOT NULL,
    svc          INTEGER NOT NULL REFERENCES services ON DELETE CASCADE,
    rule         INTEGER NOT NULL,
    status       INTEGER NOT NULL, -- 1 active, 2 archived, 3 muted
    weight       INTEGER NOT NULL, -- of the rule's impact
    signal       INTEGER NOT NULL, -- of the rule: 1 log, 2 metric, 3 trace
    mute_reason  TEXT    NOT NULL DEFAULT '',
    trace_id     TEXT    NOT NULL,
    telemetry_at INTEGER NOT NULL,
    detected_at  INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    attributes   TEXT    NOT NULL -- JSON object
) STRICT;

CREATE UNIQUE INDEX insights_by_service ON insights (svc, rule);

-- One index for each sort. What filters stands at the end of each, so that a page
-- is found without a look at the rows left out. Ties are ordered by id, ascending in
-- either direction; what is mostly wanted newest or heaviest first is kept that way.
CREATE INDEX insights_by_created ON insights (org, created_at DESC, id, status, weight, signal);
CREATE INDEX insights_by_detected ON insights (org, detected_at DESC, id, status, weight, signal, created_at);
CREATE INDEX insights_by_updated ON insights (org, updated_at DESC, id, status, weight, signal, created_at);
CREATE INDEX insights_by_weight ON insights (org, weight DESC, id, status, signal, created_at);
CREATE INDEX insights_by_signal ON insights (org, signal, id, status, weight, created_at);

-- How many insights there are, so that the total of a list needs no count.
CREATE TABLE insight_counts (
    org    INTEGER NOT NULL,
    status INTEGER NOT NULL,
    weight INTEGER NOT NULL,
    signal INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    PRIMARY KEY (org, status, weight, signal)
) STRICT, WITHOUT ROWID;

-- +goose StatementBegin
CREATE TRIGGER insights_inserted AFTER INSERT ON insights BEGIN
    INSERT INTO insight_counts VALUES (new.org, new.status, new.weight, new.signal, 1)
    ON CONFLICT DO UPDATE SET n = n + 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER insights_deleted AFTER DELETE ON insights BEGIN
    UPDATE insight_counts SET n = n - 1
    WHERE org = old.org AND status = old.status AND weight = old.weight AND signal = old.signal;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER insights_updated AFTER UPDATE OF status, weight, signal ON insights
WHEN new.status <> old.status OR new.weight <> old.weight OR new.signal <> old.signal
BEGIN
    UPDATE insight_counts SET n = n - 1
    WHERE org = old.org AND status = old.status AND weight = old.weight AND signal = old.signal;
    INSERT INTO insight_counts VALUES (new.org, new.status, new.weight, new.signal, 1)
    ON CONFLICT DO UPDATE SET n = n + 1;
END;
-- +goose StatementEnd

-- What the store itself remembers, such as the window's start at the last expiry.
CREATE TABLE memory (
    name  TEXT    NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
