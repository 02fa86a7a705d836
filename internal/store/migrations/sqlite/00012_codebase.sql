-- What the agent knows of code: installations at source hosts, their repositories, runs
-- with their events, and findings. Older programs do not use these tables.

-- +goose Up

CREATE TABLE onboarding (
    org          INTEGER NOT NULL PRIMARY KEY REFERENCES organizations,
    started_at   INTEGER NOT NULL,
    completed_at INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE installations (
    installation INTEGER PRIMARY KEY AUTOINCREMENT,
    id           BLOB    NOT NULL UNIQUE,
    org          INTEGER NOT NULL REFERENCES organizations,
    provider     TEXT    NOT NULL,
    external_id  TEXT    NOT NULL, -- at the provider; '': none
    account      TEXT    NOT NULL,
    status       TEXT    NOT NULL,
    credential   BLOB,             -- encrypted; NULL: none
    writable     INTEGER NOT NULL DEFAULT 0, -- 0 or 1
    created_at   INTEGER NOT NULL,
    created_by   TEXT    NOT NULL,
    last_error   TEXT    NOT NULL
) STRICT;

CREATE INDEX installations_by_org ON installations (org);
CREATE INDEX installations_by_external_id ON installations (provider, external_id) WHERE external_id <> '';

-- Authorizations that a source host has been asked for.
CREATE TABLE onboarding_states (
    hash       BLOB    NOT NULL PRIMARY KEY,
    org        INTEGER NOT NULL REFERENCES organizations,
    provider   TEXT    NOT NULL,
    verifier   TEXT    NOT NULL,
    created_by TEXT    NOT NULL,
    writable   INTEGER NOT NULL DEFAULT 0, -- 0 or 1
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX onboarding_states_by_org ON onboarding_states (org, expires_at);
CREATE INDEX onboarding_states_expired ON onboarding_states (expires_at);

CREATE TABLE repositories (
    repo            INTEGER PRIMARY KEY AUTOINCREMENT,
    id              BLOB    NOT NULL UNIQUE,
    org             INTEGER NOT NULL REFERENCES organizations,
    installation    INTEGER NOT NULL REFERENCES installations,
    full_name       TEXT    NOT NULL,
    url             TEXT    NOT NULL,
    default_branch  TEXT    NOT NULL,
    active          INTEGER NOT NULL, -- 0 or 1
    access          TEXT    NOT NULL,
    reviewed_at     INTEGER NOT NULL DEFAULT 0,
    reviewed_commit TEXT    NOT NULL DEFAULT '',
    reviewed_run    BLOB,             -- id of the last run that saved a review
    attempted_at    INTEGER NOT NULL DEFAULT 0, -- start of the last review, or creation of a later run that reviews
    created_at      INTEGER NOT NULL,
    settings        BLOB    NOT NULL, -- JSON
    instrumentation BLOB,             -- JSON
    UNIQUE (installation, full_name)
) STRICT;

CREATE INDEX repositories_by_org ON repositories (org);
CREATE INDEX repositories_active_by_name ON repositories (full_name) WHERE active = 1;
CREATE INDEX repositories_due ON repositories (attempted_at, repo) WHERE active = 1;

CREATE TABLE runs (
    run             INTEGER PRIMARY KEY AUTOINCREMENT,
    id              BLOB    NOT NULL UNIQUE,
    org             INTEGER NOT NULL,
    repo            INTEGER NOT NULL REFERENCES repositories ON DELETE CASCADE,
    repository_name TEXT    NOT NULL,
    type            TEXT    NOT NULL,
    status          INTEGER NOT NULL, -- 1 pending, 2 running, 3 completed, 4 failed, 5 cancelled
    cause           TEXT    NOT NULL, -- what triggered it
    ref             TEXT    NOT NULL,
    commit_sha      TEXT    NOT NULL DEFAULT '',
    phase           TEXT    NOT NULL DEFAULT '',
    created_at      INTEGER NOT NULL,
    started_at      INTEGER NOT NULL DEFAULT 0,
    ended_at        INTEGER NOT NULL DEFAULT 0,
    seen_at         INTEGER NOT NULL DEFAULT 0,
    cancel          INTEGER NOT NULL DEFAULT 0, -- 0 or 1
    holder          TEXT    NOT NULL DEFAULT '',
    lease_ends_at   INTEGER NOT NULL DEFAULT 0,
    claims          INTEGER NOT NULL DEFAULT 0, -- how often it was claimed
    events          INTEGER NOT NULL DEFAULT 0, -- next sequence number
    error           TEXT    NOT NULL DEFAULT '',
    phase_times     BLOB,             -- JSON
    input           BLOB,             -- JSON
    result          BLOB              -- JSON
) STRICT;

CREATE INDEX runs_by_org ON runs (org, run, status, type);
CREATE INDEX runs_by_repo ON runs (repo, run, status, type);
CREATE INDEX runs_pending ON runs (org, run, repo) WHERE status = 1;
-- At most one run of a repository is running.
CREATE UNIQUE INDEX runs_running ON runs (repo) WHERE status = 2;

CREATE TABLE run_events (
    run        INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    seq        INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    message    TEXT    NOT NULL,
    phase      TEXT    NOT NULL,
    transition TEXT    NOT NULL,
    payload    BLOB,             -- JSON
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

-- What runs have changed.
CREATE TABLE run_patches (
    run   INTEGER NOT NULL PRIMARY KEY REFERENCES runs ON DELETE CASCADE,
    patch BLOB    NOT NULL
) STRICT;

CREATE TABLE code_findings (
    repo             INTEGER NOT NULL REFERENCES repositories ON DELETE CASCADE,
    id               INTEGER NOT NULL, -- the hexadecimal digits
    org              INTEGER NOT NULL,
    severity         INTEGER NOT NULL, -- 1 critical to 5 suggestion
    state            INTEGER NOT NULL, -- a set: 1 resolved, 2 dismissed
    digest           BLOB    NOT NULL, -- of what a review determines
    created_at       INTEGER NOT NULL,
    resolved_at      INTEGER NOT NULL, -- 0: active
    run_id           BLOB,             -- of the last run that reported it; NULL while active: repositories.reviewed_run
    category         TEXT    NOT NULL,
    check_name       TEXT    NOT NULL,
    service          TEXT    NOT NULL,
    dismissed_reason TEXT    NOT NULL DEFAULT '',
    fix_status       TEXT    NOT NULL,
    fix_note         TEXT    NOT NULL, -- what telemetry shows of the fix
    pull_request     INTEGER NOT NULL,
    pull_status      TEXT    NOT NULL,
    insights         BLOB,             -- JSON: ids
    body             BLOB    NOT NULL, -- JSON
    PRIMARY KEY (repo, id)
) STRICT;

-- Pages and counts need this index alone.
CREATE INDEX code_findings_by_severity ON code_findings (org, severity, repo, id, state, category);
CREATE INDEX code_findings_resolved ON code_findings (resolved_at, repo) WHERE resolved_at > 0;

-- The findings that explain an insight.
CREATE TABLE code_finding_insights (
    insight BLOB    NOT NULL,
    repo    INTEGER NOT NULL,
    id      INTEGER NOT NULL,
    PRIMARY KEY (insight, repo, id),
    FOREIGN KEY (repo, id) REFERENCES code_findings ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX code_finding_insights_by_finding ON code_finding_insights (repo, id);

-- The number of findings, so that lists of repositories and totals need no count.
CREATE TABLE code_finding_counts (
    org      INTEGER NOT NULL,
    repo     INTEGER NOT NULL REFERENCES repositories ON DELETE CASCADE,
    state    INTEGER NOT NULL,
    severity INTEGER NOT NULL,
    category TEXT    NOT NULL,
    n        INTEGER NOT NULL,
    PRIMARY KEY (repo, state, severity, category)
) STRICT, WITHOUT ROWID;

CREATE INDEX code_finding_counts_by_org ON code_finding_counts (org, repo, state, severity, category, n);
