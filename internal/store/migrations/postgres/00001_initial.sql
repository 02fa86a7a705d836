-- The first schema.
--
-- Conventions:
--   * Times are microseconds since 1970, UTC; 0 means none. Buckets are seconds.
--   * Ids of organizations, services, insights and scores are UUIDs. Rows refer to
--     each other by integers, which are never used again.
--   * Texts that come from telemetry are bytea: they may hold any byte, and sort by
--     bytes. Other texts are text and sort by bytes, too.
--   * Rules are the numbers of package codec. Rule 2 is RES-002.
--   * Facts that are many for one service and always read and written together
--     are one value, encoded by package codec.
--   * hours, distinct_sets and scores are partitioned by days, UTC. The program makes
--     a day's partition when it first needs it and drops it when the day has left the
--     window. There is no default partition: it would have to be searched for each new
--     one.
--
-- What a migration may do, since replicas of the version before serve meanwhile:
--   * Each file is one transaction and begins with SET LOCAL lock_timeout, so that it
--     fails, and is tried again, rather than making others queue behind it.
--   * It may add tables, columns without a default that has to be computed for each
--     row, triggers, and constraints that are NOT VALID.
--   * It does not rewrite a table, drop or rename what the version before uses, or
--     add an index to a table that may be large but by CREATE INDEX CONCURRENTLY IF
--     NOT EXISTS, in a file of its own that is marked NO TRANSACTION.
--   * What only the version before used may go in the version after.

-- +goose Up

SET LOCAL lock_timeout = '2s';

CREATE TABLE organizations (
    org              bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id               uuid    NOT NULL UNIQUE,
    name             text    COLLATE "C" NOT NULL UNIQUE,
    external_id      text    COLLATE "C" UNIQUE, -- NULL: none
    tier             text    NOT NULL,
    created_at       bigint  NOT NULL,
    score            double precision,
    score_updated_at bigint  NOT NULL DEFAULT 0,
    claims_revision  bigint  NOT NULL DEFAULT 0 -- grows with every change of a claim
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE TABLE api_keys (
    id           text    COLLATE "C" PRIMARY KEY,
    org          bigint  NOT NULL REFERENCES organizations,
    name         text    COLLATE "C" NOT NULL,
    hash         bytea   NOT NULL,
    scopes       text    NOT NULL, -- separated by commas
    created_at   bigint  NOT NULL,
    expires_at   bigint  NOT NULL,
    last_used_at bigint  NOT NULL DEFAULT 0,
    revoked_at   bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 80);

-- Every commit changes the rows of the services it has news of: half of each page is
-- left for their next versions, here and in the tables below, and nothing that
-- changes often is in an index.
CREATE TABLE services (
    svc              bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id               uuid    NOT NULL UNIQUE,
    org              bigint  NOT NULL REFERENCES organizations,
    namespace        bytea   NOT NULL,
    name             bytea   NOT NULL,
    environment      bytea   NOT NULL,
    version          bytea   NOT NULL,
    first_seen_at    bigint  NOT NULL,
    last_seen_at     bigint  NOT NULL,
    created_at       bigint  NOT NULL,
    updated_at       bigint  NOT NULL,
    revision         bigint  NOT NULL, -- grows with every change of the facts
    scored_revision  bigint  NOT NULL DEFAULT 0, -- the revision last scored
    unscored         boolean NOT NULL DEFAULT false, -- revision > scored_revision
    tally            bytea   NOT NULL, -- sum of the service's rows of hours
    -- The current score; score_id is NULL when there is none.
    score_id         uuid,
    score            double precision,
    score_evaluated  bigint, -- sets of rules, one bit each
    score_failed     bigint,
    score_at         bigint,
    score_window     bigint, -- microseconds
    score_created_at bigint
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);

-- An index cannot hold the longest names. Sorting by the start of the name and then
-- by the whole of it is sorting by name.
CREATE INDEX services_by_name ON services (org, substr(name, 1, 1024));
CREATE INDEX services_unscored ON services (org) WHERE unscored;

-- How many services there are, so that the total of a list needs no count.
CREATE TABLE service_counts (
    org bigint PRIMARY KEY,
    n   bigint NOT NULL
) WITH (fillfactor = 50);

-- What was counted of a service in one step of the window. svc refers to services,
-- here and below, without a constraint: checking each row would cost more than
-- writing it.
CREATE TABLE hours (
    bucket bigint NOT NULL,
    svc    bigint NOT NULL,
    tally  bytea  NOT NULL,
    PRIMARY KEY (bucket, svc)
) PARTITION BY RANGE (bucket);

CREATE TABLE examples (
    svc   bigint PRIMARY KEY,
    facts bytea  NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);

CREATE TABLE items (
    svc    bigint PRIMARY KEY,
    oldest bigint NOT NULL, -- smallest bucket in facts
    facts  bytea  NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);

CREATE INDEX items_by_oldest ON items (oldest);

-- The metric series of each service, for what a service costs.
CREATE TABLE series (
    svc    bigint PRIMARY KEY,
    oldest bigint NOT NULL, -- bucket of the one longest not seen
    n      bigint NOT NULL, -- how many there are
    facts  bytea  NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);

-- Hashes do not compress.
ALTER TABLE series ALTER COLUMN facts SET STORAGE EXTERNAL;

CREATE INDEX series_by_oldest ON series (oldest);

-- Keys and values are hashes.
CREATE TABLE claims (
    svc        bigint   NOT NULL,
    rule       smallint NOT NULL,
    key        bigint   NOT NULL,
    value      bigint   NOT NULL,
    last       bigint   NOT NULL, -- newest bucket
    org        bigint   NOT NULL,
    written_at bigint   NOT NULL, -- of RES-002 only, else 0
    key_text   bytea    NOT NULL,
    value_text bytea    NOT NULL,
    PRIMARY KEY (svc, rule, key, value)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- Finds the keys with two values; it lacks what changes every hour.
CREATE INDEX claims_by_key ON claims (org, rule, key, value);
-- RES-002 claims by the hour: most are uncontested and forgotten after a day.
CREATE INDEX claims_instances ON claims (written_at) WHERE rule = 2;

CREATE TABLE distinct_sets (
    hour       bigint   NOT NULL,
    svc        bigint   NOT NULL,
    rule       smallint NOT NULL,
    key        bigint   NOT NULL,
    last       bigint   NOT NULL, -- newest bucket
    is_full    boolean  NOT NULL, -- reached its limit, holds no values any more
    written_at bigint   NOT NULL,
    members    bytea    NOT NULL,
    PRIMARY KEY (hour, svc, rule, key)
) PARTITION BY RANGE (hour);

-- Sets that are not full go hours after their last change, full ones with the window.
CREATE INDEX distinct_sets_open ON distinct_sets (hour) WHERE NOT is_full;

-- Requests seen in the last minutes, so that a repeated one counts once.
CREATE TABLE requests (
    org    bigint   NOT NULL,
    signal smallint NOT NULL,
    hash   bytea    NOT NULL,
    at     bigint   NOT NULL,
    PRIMARY KEY (org, signal, hash)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_insert_scale_factor = 1);

CREATE INDEX requests_by_time ON requests (at);

-- The history of scores.
CREATE TABLE scores (
    svc           bigint NOT NULL,
    calculated_at bigint NOT NULL,
    id            uuid   NOT NULL,
    score         double precision NOT NULL,
    evaluated     bigint NOT NULL,
    failed        bigint NOT NULL,
    span          bigint NOT NULL, -- the window, microseconds
    created_at    bigint NOT NULL,
    PRIMARY KEY (svc, calculated_at, id)
) PARTITION BY RANGE (calculated_at);

CREATE INDEX scores_by_time ON scores (calculated_at);

-- Findings. What most scorings change of them is in evidence: the indexes here are
-- written when one is opened, closed or muted, and not each time it is seen again.
CREATE TABLE insights (
    id          uuid     PRIMARY KEY,
    org         bigint   NOT NULL,
    svc         bigint   NOT NULL REFERENCES services ON DELETE CASCADE,
    rule        smallint NOT NULL,
    status      smallint NOT NULL, -- 1 active, 2 archived, 3 muted
    weight      smallint NOT NULL, -- of the rule's impact
    signal      smallint NOT NULL, -- of the rule: 1 log, 2 metric, 3 trace
    mute_reason text     COLLATE "C" NOT NULL DEFAULT '',
    detected_at bigint   NOT NULL,
    created_at  bigint   NOT NULL
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);

CREATE UNIQUE INDEX insights_by_service ON insights (svc, rule);

-- Every sort in both directions: ties are ordered by id, ascending in either, so the
-- reverse of an index is not the other direction of its sort. What filters stands at
-- the end of each, so that a page is found without a look at the rows left out.
CREATE INDEX insights_by_created ON insights (org, created_at DESC, id, status, weight, signal);
CREATE INDEX insights_by_detected ON insights (org, detected_at DESC, id, status, weight, signal, created_at);
CREATE INDEX insights_by_weight ON insights (org, weight DESC, id, status, signal, created_at);
CREATE INDEX insights_by_signal ON insights (org, signal, id, status, weight, created_at);
CREATE INDEX insights_by_created_asc ON insights (org, created_at, id, status, weight, signal);
CREATE INDEX insights_by_detected_asc ON insights (org, detected_at, id, status, weight, signal, created_at);
CREATE INDEX insights_by_weight_asc ON insights (org, weight, id, status, signal, created_at);
CREATE INDEX insights_by_signal_desc ON insights (org, signal DESC, id, status, weight, created_at);
CREATE INDEX insights_by_type ON insights (org, rule, created_at DESC, id, status, detected_at);
CREATE INDEX insights_active ON insights (org, svc, rule) WHERE status = 1;

-- What an insight says, and since when it says so. What both tables have is equal in
-- them: whoever changes it has locked the row of the service.
CREATE TABLE evidence (
    svc          bigint   NOT NULL,
    rule         smallint NOT NULL,
    id           uuid     NOT NULL,
    org          bigint   NOT NULL,
    status       smallint NOT NULL,
    weight       smallint NOT NULL,
    signal       smallint NOT NULL,
    created_at   bigint   NOT NULL,
    updated_at   bigint   NOT NULL,
    telemetry_at bigint   NOT NULL,
    trace_id     text     COLLATE "C" NOT NULL,
    attributes   text     COLLATE "C" NOT NULL, -- JSON object
    PRIMARY KEY (svc, rule)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);

CREATE INDEX evidence_by_updated ON evidence (org, updated_at DESC, id, rule, status, weight, signal, created_at);
CREATE INDEX evidence_by_updated_asc ON evidence (org, updated_at, id, rule, status, weight, signal, created_at);

-- How many insights there are, so that the total of a list needs no count.
CREATE TABLE insight_counts (
    org    bigint   NOT NULL,
    status smallint NOT NULL,
    rule   smallint NOT NULL,
    weight smallint NOT NULL,
    signal smallint NOT NULL,
    n      bigint   NOT NULL,
    PRIMARY KEY (org, status, rule, weight, signal)
) WITH (fillfactor = 50);

-- Once for each statement, however many insights it changes, and in the order of the
-- key, so that two statements never wait for each other.
-- +goose StatementBegin
CREATE FUNCTION count_insights() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO insight_counts AS c
            SELECT org, status, rule, weight, signal, count(*) FROM added GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
            ON CONFLICT (org, status, rule, weight, signal) DO UPDATE SET n = c.n + excluded.n;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO insight_counts AS c
            SELECT org, status, rule, weight, signal, -count(*) FROM removed GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
            ON CONFLICT (org, status, rule, weight, signal) DO UPDATE SET n = c.n + excluded.n;
    ELSE
        INSERT INTO insight_counts AS c
            SELECT org, status, rule, weight, signal, sum(d) FROM (
                SELECT org, status, rule, weight, signal, 1 AS d FROM added
                UNION ALL SELECT org, status, rule, weight, signal, -1 FROM removed) AS changed
            GROUP BY 1, 2, 3, 4, 5 HAVING sum(d) <> 0 ORDER BY 1, 2, 3, 4, 5
            ON CONFLICT (org, status, rule, weight, signal) DO UPDATE SET n = c.n + excluded.n;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER insights_inserted AFTER INSERT ON insights
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_insights();
CREATE TRIGGER insights_updated AFTER UPDATE ON insights
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_insights();
CREATE TRIGGER insights_deleted AFTER DELETE ON insights
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_insights();

-- Texts that a language model wrote about insights, and how many it was asked for.
CREATE TABLE summaries (
    insight      uuid    PRIMARY KEY REFERENCES insights ON DELETE CASCADE,
    evidence     bytea   NOT NULL, -- hash of what the prompt showed
    model        text    COLLATE "C" NOT NULL,
    prompt       integer NOT NULL, -- version
    generated_at bigint  NOT NULL,
    content      text    COLLATE "C" NOT NULL
);

CREATE TABLE summary_calls (
    org bigint NOT NULL REFERENCES organizations,
    day bigint NOT NULL, -- UTC days since 1970; only the last two are kept
    n   bigint NOT NULL,
    PRIMARY KEY (org, day)
) WITH (fillfactor = 50);

-- How many log records were accepted, for log volume: a monitoring system and the
-- embedded metrics store go on counting from here after a restart, so nothing here
-- ever decreases or expires.
CREATE TABLE log_records (
    org      bigint   NOT NULL REFERENCES organizations,
    severity smallint NOT NULL, -- smallest OpenTelemetry severity number of its range, 0 for unspecified
    n        bigint   NOT NULL,
    PRIMARY KEY (org, severity)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- The keys that tokens for the agent backend are signed with.
CREATE TABLE signing_keys (
    signing_key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- grows with every rotation
    id          text   COLLATE "C" NOT NULL UNIQUE,
    public      bytea  NOT NULL,
    private     bytea  NOT NULL, -- encrypted when the servers have a secret
    created_at  bigint NOT NULL,
    retired_at  bigint NOT NULL DEFAULT 0
);

-- One key at most is not retired.
CREATE UNIQUE INDEX signing_keys_current ON signing_keys (retired_at) WHERE retired_at = 0;

-- Who does what of the replicas, and what the memory of one of them would lose if it
-- were killed.
CREATE TABLE leases (
    name       text   COLLATE "C" PRIMARY KEY,
    holder     text   COLLATE "C" NOT NULL,
    expires_at bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE TABLE journals (
    name text   COLLATE "C" NOT NULL,
    seq  bigint NOT NULL,
    data bytea  NOT NULL,
    PRIMARY KEY (name, seq)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

ALTER TABLE journals ALTER COLUMN data SET STORAGE EXTERNAL;

-- What the store itself remembers, such as the window's start at the last expiry.
CREATE TABLE memory (
    name  text   COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL
);

-- The oldest version whose programs can work on the store. A migration that those
-- cannot work with raises it to its own version.
INSERT INTO memory (name, value) VALUES ('compatible_since', 1);
