-- What the dashboard lists: services by what people look for, insights by type, the
-- course of an organization's score.

-- +goose Up

ALTER TABLE services ADD COLUMN folded BLOB NOT NULL DEFAULT x''; -- the name as a search compares it
ALTER TABLE services ADD COLUMN signals INTEGER NOT NULL DEFAULT 0; -- sent in the window, a set: 1 log, 2 metric, 4 trace
-- Active insights by impact.
ALTER TABLE services ADD COLUMN critical INTEGER NOT NULL DEFAULT 0;
ALTER TABLE services ADD COLUMN important INTEGER NOT NULL DEFAULT 0;
ALTER TABLE services ADD COLUMN normal INTEGER NOT NULL DEFAULT 0;
ALTER TABLE services ADD COLUMN low INTEGER NOT NULL DEFAULT 0;

UPDATE services SET folded = assay_fold(name), signals = assay_signals(tally);
UPDATE services SET (critical, important, normal, low) = (
    SELECT count(*) FILTER (WHERE weight = 40), count(*) FILTER (WHERE weight = 30),
        count(*) FILTER (WHERE weight = 20), count(*) FILTER (WHERE weight = 10)
    FROM insights i WHERE i.svc = services.svc AND i.status = 1);

-- Everything that services are found and sorted by stands in one index, a tenth of
-- the table, so that any search of an organization reads that alone. Rows are read for
-- the services of a page only.
DROP INDEX services_by_name;
CREATE INDEX services_by_name ON services (org, name, environment, version, id,
    namespace, folded, signals, last_seen_at, score, score_evaluated, score_failed, critical, important, normal, low);

-- Insights of one type, and the muted ones.
CREATE INDEX insights_by_type ON insights (org, rule, created_at DESC, id, status, weight, signal, detected_at);
CREATE INDEX insights_muted ON insights (org, svc, rule) WHERE status = 3;

-- The counts of insights by type, too.
DROP TRIGGER insights_inserted;
DROP TRIGGER insights_deleted;
DROP TRIGGER insights_updated;
DROP TABLE insight_counts;

CREATE TABLE insight_counts (
    org    INTEGER NOT NULL,
    status INTEGER NOT NULL,
    rule   INTEGER NOT NULL,
    weight INTEGER NOT NULL,
    signal INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    PRIMARY KEY (org, status, rule, weight, signal)
) STRICT, WITHOUT ROWID;

INSERT INTO insight_counts SELECT org, status, rule, weight, signal, count(*) FROM insights GROUP BY 1, 2, 3, 4, 5;

-- +goose StatementBegin
CREATE TRIGGER insights_inserted AFTER INSERT ON insights BEGIN
    INSERT INTO insight_counts VALUES (new.org, new.status, new.rule, new.weight, new.signal, 1)
    ON CONFLICT DO UPDATE SET n = n + 1;
    UPDATE services SET critical = critical + (new.weight = 40), important = important + (new.weight = 30),
        normal = normal + (new.weight = 20), low = low + (new.weight = 10)
    WHERE svc = new.svc AND new.status = 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER insights_deleted AFTER DELETE ON insights BEGIN
    UPDATE insight_counts SET n = n - 1
    WHERE org = old.org AND status = old.status AND rule = old.rule AND weight = old.weight AND signal = old.signal;
    UPDATE services SET critical = critical - (old.weight = 40), important = important - (old.weight = 30),
        normal = normal - (old.weight = 20), low = low - (old.weight = 10)
    WHERE svc = old.svc AND old.status = 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER insights_updated AFTER UPDATE OF status, weight, signal ON insights
WHEN new.status <> old.status OR new.weight <> old.weight OR new.signal <> old.signal
BEGIN
    UPDATE insight_counts SET n = n - 1
    WHERE org = old.org AND status = old.status AND rule = old.rule AND weight = old.weight AND signal = old.signal;
    INSERT INTO insight_counts VALUES (new.org, new.status, new.rule, new.weight, new.signal, 1)
    ON CONFLICT DO UPDATE SET n = n + 1;
    UPDATE services SET
        critical = critical + (new.status = 1 AND new.weight = 40) - (old.status = 1 AND old.weight = 40),
        important = important + (new.status = 1 AND new.weight = 30) - (old.status = 1 AND old.weight = 30),
        normal = normal + (new.status = 1 AND new.weight = 20) - (old.status = 1 AND old.weight = 20),
        low = low + (new.status = 1 AND new.weight = 10) - (old.status = 1 AND old.weight = 10)
    WHERE svc = new.svc;
END;
-- +goose StatementEnd

-- The history of organizations' scores: of each ten minutes the last one that was
-- saved.
CREATE TABLE organization_scores (
    org   INTEGER NOT NULL REFERENCES organizations,
    slot  INTEGER NOT NULL, -- number of the ten minutes since 1970
    at    INTEGER NOT NULL,
    score REAL    NOT NULL,
    PRIMARY KEY (org, slot)
) STRICT, WITHOUT ROWID;

CREATE INDEX organization_scores_by_slot ON organization_scores (slot);

-- Counts of insights have another key, and services without a folded name are not found.
UPDATE memory SET value = 9 WHERE name = 'compatible_since';
