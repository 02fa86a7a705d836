-- Webhooks and their outbox. Triggers write the outbox, so that it changes with an insight's
-- status whatever changes that, and only then. Older programs do not use these tables.

-- +goose Up

SET LOCAL lock_timeout = '2s';

CREATE TABLE webhooks (
    webhook         bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id              uuid     NOT NULL UNIQUE,
    org             bigint   NOT NULL REFERENCES organizations,
    name            bytea    NOT NULL,
    url             bytea    NOT NULL,
    secret          bytea    NOT NULL, -- encrypted
    enabled         smallint NOT NULL, -- 0 or 1
    min_weight      smallint NOT NULL, -- of the impact
    rules           bigint   NOT NULL, -- set of rule numbers; 0: all
    environments    bytea    NOT NULL, -- JSON list; [] means all
    created_at      bigint   NOT NULL,
    updated_at      bigint   NOT NULL,
    disabled_reason bytea    NOT NULL DEFAULT '', -- why the server disabled it
    failures        bigint   NOT NULL DEFAULT 0, -- failed attempts since the last success
    failing_since   bigint   NOT NULL DEFAULT 0, -- time of the first of them
    last_seq        bigint   NOT NULL DEFAULT 0, -- of the newest delivery
    evicted         bigint   NOT NULL DEFAULT 0, -- deliveries given up because the queue was full, since the last claim
    due_at          bigint   NOT NULL DEFAULT 0, -- of the next attempt, or the end of the holder's lease; 0: no delivery is pending
    holder          bytea                        -- of the lease; NULL: none
) WITH (fillfactor = 50);

CREATE INDEX webhooks_by_org ON webhooks (org, webhook);
CREATE INDEX webhooks_due ON webhooks (due_at, org, webhook) WHERE due_at > 0;
CREATE INDEX webhooks_held ON webhooks (org, due_at) WHERE holder IS NOT NULL;

CREATE TABLE webhook_deliveries (
    webhook      bigint   NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    seq          bigint   NOT NULL, -- from 1, without gaps
    id           uuid     NOT NULL UNIQUE,
    insight      uuid,             -- NULL: a test
    event        smallint NOT NULL, -- status of the insight; 0: a test
    status       smallint NOT NULL, -- 1 pending, 2 succeeded, 3 failed
    attempts     bigint   NOT NULL DEFAULT 0,
    http_status  integer  NOT NULL DEFAULT 0, -- of the last attempt; 0: none
    error        bytea    NOT NULL DEFAULT '',
    created_at   bigint   NOT NULL,
    completed_at bigint   NOT NULL DEFAULT 0,
    PRIMARY KEY (webhook, seq)
) WITH (fillfactor = 70);

CREATE INDEX webhook_deliveries_pending ON webhook_deliveries (webhook, seq) WHERE status = 1;
CREATE INDEX webhook_deliveries_completed ON webhook_deliveries (completed_at) WHERE completed_at > 0;

-- A full queue gives up its oldest pending deliveries, and the oldest rows are deleted. The
-- limits are assay.MaxPendingDeliveries and assay.MaxDeliveries.
-- +goose StatementBegin
CREATE FUNCTION bound_deliveries() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    w record;
    n bigint;
BEGIN
    FOR w IN SELECT webhook, max(seq) AS last, min(created_at) FILTER (WHERE status = 1) AS due FROM added GROUP BY webhook ORDER BY webhook LOOP
        UPDATE webhook_deliveries SET status = 3, error = 'given up: newer deliveries filled the queue', completed_at = coalesce(w.due, created_at)
            WHERE webhook = w.webhook AND status = 1 AND seq <= w.last - 5000;
        GET DIAGNOSTICS n = ROW_COUNT;
        UPDATE webhooks SET last_seq = w.last, evicted = evicted + n, due_at = CASE due_at WHEN 0 THEN coalesce(w.due, 0) ELSE due_at END
            WHERE webhook = w.webhook;
        DELETE FROM webhook_deliveries WHERE webhook = w.webhook AND seq <= w.last - 10000;
    END LOOP;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER webhook_deliveries_inserted AFTER INSERT ON webhook_deliveries
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION bound_deliveries();

-- The rows of webhooks stay locked until the end, so numbers follow the order of commits.
-- +goose StatementBegin
CREATE FUNCTION queue_deliveries(changed uuid[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE w record;
BEGIN
    FOR w IN SELECT * FROM webhooks WHERE enabled = 1 AND org IN (SELECT org FROM insights WHERE id = ANY (changed)) ORDER BY webhook FOR NO KEY UPDATE LOOP
        INSERT INTO webhook_deliveries (webhook, seq, id, insight, event, status, created_at)
            SELECT w.webhook, w.last_seq + row_number() OVER (ORDER BY e.updated_at, i.id), gen_random_uuid(), i.id, i.status, 1, e.updated_at
            FROM insights i JOIN evidence e ON e.svc = i.svc AND e.rule = i.rule JOIN services s ON s.svc = i.svc
            WHERE i.id = ANY (changed) AND i.org = w.org AND i.weight >= w.min_weight AND (w.rules = 0 OR (w.rules >> (i.rule - 1)) & 1 = 1)
                AND (w.environments = '[]'
                    OR s.environment IN (SELECT convert_to(value, 'UTF8') FROM jsonb_array_elements_text(CAST(convert_from(w.environments, 'UTF8') AS jsonb))));
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION queue_insights() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM webhooks) THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' THEN
        PERFORM queue_deliveries(ARRAY (SELECT id FROM added WHERE status = 1));
    ELSE
        PERFORM queue_deliveries(ARRAY (SELECT a.id FROM added a JOIN removed r ON r.id = a.id WHERE a.status <> r.status AND a.status IN (1, 2)));
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER queue_opened AFTER INSERT ON insights
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION queue_insights();
CREATE TRIGGER queue_changed AFTER UPDATE ON insights
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION queue_insights();
