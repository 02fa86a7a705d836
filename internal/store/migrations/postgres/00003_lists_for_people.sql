-- What the dashboard lists: services by what people look for, with their active
-- insights, and the course of an organization's score.

-- +goose Up

SET LOCAL lock_timeout = '2s';

ALTER TABLE services
    ADD COLUMN folded    bytea    NOT NULL DEFAULT '', -- the name as a search compares it
    ADD COLUMN signals   smallint NOT NULL DEFAULT 0,  -- sent in the window, a set: 1 log, 2 metric, 4 trace
    -- Active insights by impact.
    ADD COLUMN critical  integer  NOT NULL DEFAULT 0,
    ADD COLUMN important integer  NOT NULL DEFAULT 0,
    ADD COLUMN normal    integer  NOT NULL DEFAULT 0,
    ADD COLUMN low       integer  NOT NULL DEFAULT 0;

-- Whoever changes an insight has locked the row of its service.
-- +goose StatementBegin
CREATE FUNCTION count_active() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        UPDATE services s SET critical = s.critical + d.critical, important = s.important + d.important, normal = s.normal + d.normal, low = s.low + d.low
        FROM (
            SELECT svc, count(*) FILTER (WHERE weight = 40) AS critical, count(*) FILTER (WHERE weight = 30) AS important,
                count(*) FILTER (WHERE weight = 20) AS normal, count(*) FILTER (WHERE weight = 10) AS low
            FROM added WHERE status = 1 GROUP BY svc) AS d
        WHERE s.svc = d.svc;
    ELSIF TG_OP = 'DELETE' THEN
        UPDATE services s SET critical = s.critical - d.critical, important = s.important - d.important, normal = s.normal - d.normal, low = s.low - d.low
        FROM (
            SELECT svc, count(*) FILTER (WHERE weight = 40) AS critical, count(*) FILTER (WHERE weight = 30) AS important,
                count(*) FILTER (WHERE weight = 20) AS normal, count(*) FILTER (WHERE weight = 10) AS low
            FROM removed WHERE status = 1 GROUP BY svc) AS d
        WHERE s.svc = d.svc;
    ELSE
        UPDATE services s SET critical = s.critical + d.critical, important = s.important + d.important, normal = s.normal + d.normal, low = s.low + d.low
        FROM (
            SELECT svc, coalesce(sum(n) FILTER (WHERE weight = 40), 0) AS critical, coalesce(sum(n) FILTER (WHERE weight = 30), 0) AS important,
                coalesce(sum(n) FILTER (WHERE weight = 20), 0) AS normal, coalesce(sum(n) FILTER (WHERE weight = 10), 0) AS low
            FROM (
                SELECT svc, weight, 1 AS n FROM added WHERE status = 1
                UNION ALL SELECT svc, weight, -1 FROM removed WHERE status = 1) AS changed
            GROUP BY svc) AS d
        WHERE s.svc = d.svc AND (d.critical, d.important, d.normal, d.low) <> (0, 0, 0, 0);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER active_inserted AFTER INSERT ON insights
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_active();
CREATE TRIGGER active_updated AFTER UPDATE ON insights
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_active();
CREATE TRIGGER active_deleted AFTER DELETE ON insights
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_active();

-- The history of organizations' scores: of each ten minutes the last one that was
-- saved.
CREATE TABLE organization_scores (
    org   bigint NOT NULL REFERENCES organizations,
    slot  bigint NOT NULL, -- number of the ten minutes since 1970
    at    bigint NOT NULL,
    score double precision NOT NULL,
    PRIMARY KEY (org, slot)
) WITH (fillfactor = 80);

CREATE INDEX organization_scores_by_slot ON organization_scores (slot);

-- Services without a folded name are not found.
UPDATE memory SET value = 3 WHERE name = 'compatible_since';
