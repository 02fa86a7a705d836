-- Lists whose last page costs what the first does.

-- +goose Up

-- Every sort of insights in both directions. Ties are ordered by id ascending in
-- either, so the reverse of an index of 00001 is not the other direction of its
-- sort: it is what a page near the end of the list is read by.
CREATE INDEX insights_by_created_asc ON insights (org, created_at, id, status, weight, signal);
CREATE INDEX insights_by_detected_asc ON insights (org, detected_at, id, status, weight, signal, created_at);
CREATE INDEX insights_by_updated_asc ON insights (org, updated_at, id, status, weight, signal, created_at);
CREATE INDEX insights_by_weight_asc ON insights (org, weight, id, status, signal, created_at);
CREATE INDEX insights_by_signal_desc ON insights (org, signal DESC, id, status, weight, created_at);

-- How many services there are, so that the total of a list needs no count.
CREATE TABLE service_counts (
    org INTEGER PRIMARY KEY,
    n   INTEGER NOT NULL
) STRICT;

INSERT INTO service_counts SELECT org, count(*) FROM services GROUP BY org;

-- +goose StatementBegin
CREATE TRIGGER services_inserted AFTER INSERT ON services BEGIN
    INSERT INTO service_counts VALUES (new.org, 1) ON CONFLICT DO UPDATE SET n = n + 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER services_deleted AFTER DELETE ON services BEGIN
    UPDATE service_counts SET n = n - 1 WHERE org = old.org;
END;
-- +goose StatementEnd
