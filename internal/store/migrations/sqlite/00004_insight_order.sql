-- Every sort of insights in both directions. Ties are ordered by id ascending in
-- either, so the reverse of an index of 00001 is not the other direction of its
-- sort: it is what a page near the end of the list is read by.

-- +goose Up

CREATE INDEX insights_by_created_asc ON insights (org, created_at, id, status, weight, signal);
CREATE INDEX insights_by_detected_asc ON insights (org, detected_at, id, status, weight, signal, created_at);
CREATE INDEX insights_by_updated_asc ON insights (org, updated_at, id, status, weight, signal, created_at);
CREATE INDEX insights_by_weight_asc ON insights (org, weight, id, status, signal, created_at);
CREATE INDEX insights_by_signal_desc ON insights (org, signal DESC, id, status, weight, created_at);
