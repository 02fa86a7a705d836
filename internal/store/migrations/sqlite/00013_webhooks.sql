-- Webhooks and their outbox. Triggers write the outbox, so that it changes with an insight's
-- status whatever changes that, and only then. Older programs do not use these tables.

-- +goose Up

CREATE TABLE webhooks (
    webhook         INTEGER PRIMARY KEY AUTOINCREMENT,
    id              BLOB    NOT NULL UNIQUE,
    org             INTEGER NOT NULL REFERENCES organizations,
    name            TEXT    NOT NULL,
    url             TEXT    NOT NULL,
    secret          BLOB    NOT NULL, -- encrypted
    enabled         INTEGER NOT NULL, -- 0 or 1
    min_weight      INTEGER NOT NULL, -- of the impact
    rules           INTEGER NOT NULL, -- set of rule numbers; 0: all
    environments    BLOB    NOT NULL, -- JSON list; [] means all
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    disabled_reason TEXT    NOT NULL DEFAULT '', -- why the server disabled it
    failures        INTEGER NOT NULL DEFAULT 0, -- failed attempts since the last success
    failing_since   INTEGER NOT NULL DEFAULT 0, -- time of the first of them
    last_seq        INTEGER NOT NULL DEFAULT 0, -- of the newest delivery
    evicted         INTEGER NOT NULL DEFAULT 0, -- deliveries given up because the queue was full, since the last claim
    due_at          INTEGER NOT NULL DEFAULT 0, -- of the next attempt, or the end of the holder's lease; 0: no delivery is pending
    holder          TEXT                        -- of the lease; NULL: none
) STRICT;

CREATE INDEX webhooks_by_org ON webhooks (org, webhook);
CREATE INDEX webhooks_due ON webhooks (due_at, org, webhook) WHERE due_at > 0;
CREATE INDEX webhooks_held ON webhooks (org, due_at) WHERE holder IS NOT NULL;

CREATE TABLE webhook_deliveries (
    webhook      INTEGER NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    seq          INTEGER NOT NULL, -- from 1, without gaps
    id           BLOB    NOT NULL UNIQUE,
    insight      BLOB,             -- NULL: a test
    event        INTEGER NOT NULL, -- status of the insight; 0: a test
    status       INTEGER NOT NULL, -- 1 pending, 2 succeeded, 3 failed
    attempts     INTEGER NOT NULL DEFAULT 0,
    http_status  INTEGER NOT NULL DEFAULT 0, -- of the last attempt; 0: none
    error        TEXT    NOT NULL DEFAULT '',
    created_at   INTEGER NOT NULL,
    completed_at INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (webhook, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX webhook_deliveries_pending ON webhook_deliveries (webhook, seq) WHERE status = 1;
CREATE INDEX webhook_deliveries_completed ON webhook_deliveries (completed_at) WHERE completed_at > 0;

-- A full queue gives up its oldest pending delivery, and the oldest rows are deleted. The
-- limits are assay.MaxPendingDeliveries and assay.MaxDeliveries.
-- +goose StatementBegin
CREATE TRIGGER webhook_deliveries_inserted AFTER INSERT ON webhook_deliveries BEGIN
    UPDATE webhook_deliveries SET status = 3, error = 'given up: newer deliveries filled the queue', completed_at = new.created_at
    WHERE webhook = new.webhook AND seq = new.seq - 5000 AND status = 1;
    UPDATE webhooks SET last_seq = new.seq, evicted = evicted + changes() WHERE webhook = new.webhook;
    UPDATE webhooks SET due_at = new.created_at WHERE webhook = new.webhook AND due_at = 0 AND new.status = 1;
    DELETE FROM webhook_deliveries WHERE webhook = new.webhook AND seq <= new.seq - 10000;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER insights_opened AFTER INSERT ON insights WHEN new.status = 1 BEGIN
    INSERT INTO webhook_deliveries (webhook, seq, id, insight, event, status, created_at)
    SELECT w.webhook, w.last_seq + 1, unhex(hex(randomblob(6)) || '4' || substr(hex(randomblob(2)), 2) || 'a' || substr(hex(randomblob(8)), 2)),
        new.id, new.status, 1, new.updated_at
    FROM webhooks w
    WHERE w.org = new.org AND w.enabled = 1 AND w.min_weight <= new.weight AND (w.rules = 0 OR (w.rules >> (new.rule - 1)) & 1)
        AND (w.environments = CAST('[]' AS BLOB)
            OR (SELECT environment FROM services s WHERE s.svc = new.svc) IN (SELECT value FROM json_each(CAST(w.environments AS TEXT))));
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER insights_changed AFTER UPDATE OF status ON insights WHEN new.status <> old.status AND new.status IN (1, 2) BEGIN
    INSERT INTO webhook_deliveries (webhook, seq, id, insight, event, status, created_at)
    SELECT w.webhook, w.last_seq + 1, unhex(hex(randomblob(6)) || '4' || substr(hex(randomblob(2)), 2) || 'a' || substr(hex(randomblob(8)), 2)),
        new.id, new.status, 1, new.updated_at
    FROM webhooks w
    WHERE w.org = new.org AND w.enabled = 1 AND w.min_weight <= new.weight AND (w.rules = 0 OR (w.rules >> (new.rule - 1)) & 1)
        AND (w.environments = CAST('[]' AS BLOB)
            OR (SELECT environment FROM services s WHERE s.svc = new.svc) IN (SELECT value FROM json_each(CAST(w.environments AS TEXT))));
END;
-- +goose StatementEnd
