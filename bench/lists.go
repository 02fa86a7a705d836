// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
)

// Contents of the store of the pages bench, all of one organization.
const (
	listedServices = 10_000
	listedInsights = 1_000_000
)

// insightsSQL is the store's statement for a page of an organization's insights, in the
// order of created_at, newest first.
func insightsSQL(order string) string {
	return `SELECT i.id, o.id, i.rule, i.status, i.mute_reason, i.trace_id, i.telemetry_at, i.detected_at, i.created_at, i.updated_at, i.attributes,
		s.id, s.namespace, s.name, s.environment, s.version, s.first_seen_at, s.last_seen_at, s.created_at, s.updated_at
		FROM insights i JOIN services s ON s.svc = i.svc JOIN organizations o ON o.org = i.org
		WHERE i.insight IN (SELECT insight FROM insights INDEXED BY insights_by_created WHERE org = ? ORDER BY ` + order + ` LIMIT ? + 0 OFFSET ? + 0)
		ORDER BY i.created_at DESC, i.id ASC`
}

// servicesSQL is the same for services.
func servicesSQL(order string) string {
	return `SELECT s.id, o.id, s.namespace, s.name, s.environment, s.version, s.first_seen_at, s.last_seen_at, s.created_at, s.updated_at,
		s.score_id, s.score, s.score_evaluated, s.score_failed, s.score_at, s.score_window, s.score_created_at
		FROM services s JOIN organizations o ON o.org = s.org
		WHERE s.svc IN (SELECT svc FROM services INDEXED BY services_by_name WHERE org = ? ORDER BY ` + order + ` LIMIT ? + 0 OFFSET ? + 0)
		ORDER BY s.name, s.environment, s.version, s.id`
}

// fillLists stores the services and insights and returns the number of the organization.
// The services pass every rule and the insights are settled, so the scorer does not
// change them. A service has at most one insight of each type. A million insights need
// more services than are listed; the other services belong to a second organization.
func fillLists(ctx context.Context, path string) (org int64, err error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(off)&_pragma=cache_size(-100000)&_pragma=journal_mode(wal)")
	if err != nil {
		return 0, err
	}
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.QueryRowContext(ctx, `SELECT org FROM organizations`).Scan(&org); err != nil {
		return 0, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	do := func(query string, args ...any) {
		if err == nil {
			_, err = tx.ExecContext(ctx, query, args...)
		}
	}
	do(`CREATE TEMP TABLE types (rule INTEGER PRIMARY KEY, weight INTEGER, signal INTEGER)`)
	signals := map[catalog.Signal]int{"log": 1, "metric": 2, "trace": 3}
	var tally codec.Tally
	for _, r := range catalog.All() {
		do(`INSERT INTO types VALUES (?, ?, ?)`, codec.RuleNumber(r), r.Info().Impact.Weight(), signals[r.Info().Signal])
		tally.Counts[r].Observed = 1000
	}
	do(`INSERT INTO organizations (id, name, tier, created_at) VALUES (randomblob(16), 'beyond the list', 'free', 0)`)
	now := time.Now().UnixMicro()
	do(`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
		INSERT INTO services (svc, id, org, namespace, name, environment, version, first_seen_at, last_seen_at, created_at, updated_at, revision, tally)
		SELECT i + 1, randomblob(16), iif(i < ?2, ?3, (SELECT max(org) FROM organizations)), 'team-' || (i % 40), format('service-%05d', i / 2),
			iif(i % 2, 'production', 'staging'), '1.' || (i % 7) || '.0', ?4, ?4, ?4, ?4, 1, ?5
		FROM n`, (listedInsights+int(catalog.Count)-1)/int(catalog.Count), listedServices, org, now, tally.AppendBinary(nil))
	indexes := texts(ctx, tx, &err, `SELECT sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'insights' AND sql IS NOT NULL`)
	for _, name := range texts(ctx, tx, &err, `SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'insights' AND sql IS NOT NULL`) {
		do(`DROP INDEX ` + name) // built afterwards, which is faster
	}
	// Spread the insights over 30 days, in another order than that of their rows.
	do(`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
		INSERT INTO insights (id, org, svc, rule, status, weight, signal, trace_id, telemetry_at, detected_at, created_at, updated_at, attributes)
		SELECT randomblob(16), ?2, 1 + i / ?3, rule, iif(i % 5, 2, 3), weight, signal, lower(hex(randomblob(16))),
			?4 - i % 3600 * 1000000, ?4 - i * 7919 % ?1 * 2592000, ?4 - i * 7919 % ?1 * 2592000, ?4 - i % 86400 * 1000000, ?5
		FROM n JOIN types ON rule = 1 + i % ?3`, listedInsights, org, int(catalog.Count), now, evidence())
	for _, index := range indexes {
		do(index)
	}
	if err != nil {
		return 0, err
	}
	return org, tx.Commit()
}

// texts returns the only column of a query, unless an earlier step failed.
func texts(ctx context.Context, tx *sql.Tx, failed *error, query string) (all []string) {
	if *failed != nil {
		return nil
	}
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		*failed = err
		return nil
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if *failed = rows.Scan(&text); *failed != nil {
			return nil
		}
		all = append(all, text)
	}
	*failed = rows.Err()
	return all
}

// evidence is the attributes of an insight, of realistic length.
func evidence() string {
	resource := `{\"service.name\":\"checkout\",\"service.version\":\"1.4.2\",\"deployment.environment.name\":\"production\",` +
		`\"k8s.pod.name\":\"checkout-6d5f4c7b8-x2x9k\",\"k8s.namespace.name\":\"shop\",\"host.name\":\"node-17\",` +
		`\"telemetry.sdk.language\":\"go\",\"telemetry.sdk.version\":\"1.38.0\",\"process.runtime.version\":\"go1.26.0\"}`
	return fmt.Sprintf(`{"attribute_keys":"[\"host.name\",\"service.instance.id\"]","observations_total":1000,"resource_attributes":"%s",`+
		`"signal_type":"TRACES","violations_total":0}`, resource)
}
