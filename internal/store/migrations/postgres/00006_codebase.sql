-- What the agent knows of code: installations at source hosts, their repositories, runs
-- with their events, and findings. Older programs do not use these tables.

-- +goose Up

SET LOCAL lock_timeout = '2s';

CREATE TABLE onboarding (
    org          bigint   NOT NULL PRIMARY KEY REFERENCES organizations,
    started_at   bigint   NOT NULL,
    completed_at bigint   NOT NULL DEFAULT 0
);

CREATE TABLE installations (
    installation bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id           uuid     NOT NULL UNIQUE,
    org          bigint   NOT NULL REFERENCES organizations,
    provider     bytea    NOT NULL,
    external_id  bytea    NOT NULL, -- at the provider; '': none
    account      bytea    NOT NULL,
    status       bytea    NOT NULL,
    credential   bytea,            -- encrypted; NULL: none
    writable     smallint NOT NULL DEFAULT 0, -- 0 or 1
    created_at   bigint   NOT NULL,
    created_by   bytea    NOT NULL,
    last_error   bytea    NOT NULL
);

CREATE INDEX installations_by_org ON installations (org);
CREATE INDEX installations_by_external_id ON installations (provider, external_id) WHERE external_id <> '';

-- Authorizations that a source host has been asked for.
CREATE TABLE onboarding_states (
    hash       bytea    NOT NULL PRIMARY KEY,
    org        bigint   NOT NULL REFERENCES organizations,
    provider   bytea    NOT NULL,
    verifier   bytea    NOT NULL,
    created_by bytea    NOT NULL,
    writable   smallint NOT NULL DEFAULT 0, -- 0 or 1
    expires_at bigint   NOT NULL
);

CREATE INDEX onboarding_states_by_org ON onboarding_states (org, expires_at);
CREATE INDEX onboarding_states_expired ON onboarding_states (expires_at);

CREATE TABLE repositories (
    repo            bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id              uuid     NOT NULL UNIQUE,
    org             bigint   NOT NULL REFERENCES organizations,
    installation    bigint   NOT NULL REFERENCES installations,
    full_name       bytea    NOT NULL,
    url             bytea    NOT NULL,
    default_branch  bytea    NOT NULL,
    active          smallint NOT NULL, -- 0 or 1
    access          bytea    NOT NULL,
    reviewed_at     bigint   NOT NULL DEFAULT 0,
    reviewed_commit bytea    NOT NULL DEFAULT '',
    reviewed_run    uuid,             -- id of the last run that saved a review
    attempted_at    bigint   NOT NULL DEFAULT 0, -- start of the last review, or creation of a later run that reviews
    created_at      bigint   NOT NULL,
    settings        bytea    NOT NULL, -- JSON
    instrumentation bytea,            -- JSON
    UNIQUE (installation, full_name)
);

CREATE INDEX repositories_by_org ON repositories (org);
CREATE INDEX repositories_active_by_name ON repositories (full_name) WHERE active = 1;
CREATE INDEX repositories_due ON repositories (attempted_at, repo) WHERE active = 1;

CREATE TABLE runs (
    run             bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id              uuid     NOT NULL UNIQUE,
    org             bigint   NOT NULL,
    repo            bigint   NOT NULL REFERENCES repositories ON DELETE CASCADE,
    repository_name bytea    NOT NULL,
    type            bytea    NOT NULL,
    status          smallint NOT NULL, -- 1 pending, 2 running, 3 completed, 4 failed, 5 cancelled
    cause           bytea    NOT NULL, -- what triggered it
    ref             bytea    NOT NULL,
    commit_sha      bytea    NOT NULL DEFAULT '',
    phase           bytea    NOT NULL DEFAULT '',
    created_at      bigint   NOT NULL,
    started_at      bigint   NOT NULL DEFAULT 0,
    ended_at        bigint   NOT NULL DEFAULT 0,
    seen_at         bigint   NOT NULL DEFAULT 0,
    cancel          smallint NOT NULL DEFAULT 0, -- 0 or 1
    holder          bytea    NOT NULL DEFAULT '',
    lease_ends_at   bigint   NOT NULL DEFAULT 0,
    claims          integer  NOT NULL DEFAULT 0, -- how often it was claimed
    events          integer  NOT NULL DEFAULT 0, -- next sequence number
    error           bytea    NOT NULL DEFAULT '',
    phase_times     bytea,            -- JSON
    input           bytea,            -- JSON
    result          bytea             -- JSON
) WITH (fillfactor = 70);

CREATE INDEX runs_by_org ON runs (org, run, status, type);
CREATE INDEX runs_by_repo ON runs (repo, run, status, type);
CREATE INDEX runs_pending ON runs (org, run, repo) WHERE status = 1;
-- At most one run of a repository is running.
CREATE UNIQUE INDEX runs_running ON runs (repo) WHERE status = 2;

CREATE TABLE run_events (
    run        bigint   NOT NULL REFERENCES runs ON DELETE CASCADE,
    seq        bigint   NOT NULL,
    at         bigint   NOT NULL,
    name       bytea    NOT NULL,
    message    bytea    NOT NULL,
    phase      bytea    NOT NULL,
    transition bytea    NOT NULL,
    payload    bytea,            -- JSON
    PRIMARY KEY (run, seq)
);

-- What runs have changed.
CREATE TABLE run_patches (
    run   bigint NOT NULL PRIMARY KEY REFERENCES runs ON DELETE CASCADE,
    patch bytea  NOT NULL
);

CREATE TABLE code_findings (
    repo             bigint   NOT NULL REFERENCES repositories ON DELETE CASCADE,
    id               bigint   NOT NULL, -- the hexadecimal digits
    org              bigint   NOT NULL,
    severity         smallint NOT NULL, -- 1 critical to 5 suggestion
    state            smallint NOT NULL, -- a set: 1 resolved, 2 dismissed
    digest           bytea    NOT NULL, -- of what a review determines
    created_at       bigint   NOT NULL,
    resolved_at      bigint   NOT NULL, -- 0: active
    run_id           uuid,             -- of the last run that reported it; NULL while active: repositories.reviewed_run
    category         bytea    NOT NULL,
    check_name       bytea    NOT NULL,
    service          bytea    NOT NULL,
    dismissed_reason bytea    NOT NULL DEFAULT '',
    fix_status       bytea    NOT NULL,
    fix_note         bytea    NOT NULL, -- what telemetry shows of the fix
    pull_request     integer  NOT NULL,
    pull_status      bytea    NOT NULL,
    insights         bytea,            -- JSON: ids
    body             bytea    NOT NULL, -- JSON
    PRIMARY KEY (repo, id)
);

-- Pages and counts need this index alone.
CREATE INDEX code_findings_by_severity ON code_findings (org, severity, repo, id, state, category);
CREATE INDEX code_findings_resolved ON code_findings (resolved_at, repo) WHERE resolved_at > 0;

-- The findings that explain an insight.
CREATE TABLE code_finding_insights (
    insight uuid     NOT NULL,
    repo    bigint   NOT NULL,
    id      bigint   NOT NULL,
    PRIMARY KEY (insight, repo, id),
    FOREIGN KEY (repo, id) REFERENCES code_findings ON DELETE CASCADE
);

CREATE INDEX code_finding_insights_by_finding ON code_finding_insights (repo, id);

-- The number of findings, so that lists of repositories and totals need no count.
CREATE TABLE code_finding_counts (
    org      bigint   NOT NULL,
    repo     bigint   NOT NULL REFERENCES repositories ON DELETE CASCADE,
    state    smallint NOT NULL,
    severity smallint NOT NULL,
    category bytea    NOT NULL,
    n        bigint   NOT NULL,
    PRIMARY KEY (repo, state, severity, category)
);

CREATE INDEX code_finding_counts_by_org ON code_finding_counts (org, repo, state, severity, category, n);
