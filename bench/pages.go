// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"assay/internal/assaytest"
)

const (
	pageClients = 4
	pageSpan    = time.Second // of one subject in one round

	// walked is the number of pages, each one item further, before the first is requested a second time.
	walked = 5_000

	sqlTarget  = 0.6 // of the bare SQL's throughput
	lastTarget = 3   // times the first page
)

// listed is a list that is measured.
type listed struct {
	path         string // of the first page, below the API's root
	limit, total int

	// The store's own SQL: for the number of items, for a page, and for a page counted from
	// the end of the list. Its first argument is the organization.
	count, page, end string
	org              int64
}

// runPages measures pages near the front and the end of long lists, compared with their
// SQL.
func runPages(ctx context.Context, s *settings, emit func(*table) error) (err error) {
	var org int64
	srv, filled, err := startFilled(ctx, s.assay, func(ctx context.Context, path string) (err error) {
		org, err = fillLists(ctx, path)
		return err
	}, "--score-interval", "1h")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	if err := srv.calm(ctx); err != nil { // it scores all services first
		return srv.Explain(err)
	}
	db, err := openReaders(filepath.Join(srv.Dir, "assay.db"))
	if err != nil {
		return err
	}
	defer db.Close()

	for _, l := range []*listed{
		{
			path: "/v1/insights?limit=20", limit: 20, total: listedInsights, org: org,
			count: `SELECT ifnull(sum(n), 0) FROM insight_counts WHERE org = ?`,
			page:  insightsSQL(`created_at DESC, id ASC`), end: insightsSQL(`created_at ASC, id DESC`),
		},
		{
			path: "/v1/services?limit=50", limit: 50, total: listedServices, org: org,
			count: `SELECT ifnull(sum(n), 0) FROM service_counts WHERE org = ?`,
			page:  servicesSQL(`name, environment, version, id`), end: servicesSQL(`name DESC, environment DESC, version DESC, id DESC`),
		},
	} {
		t, err := measurePages(ctx, s, srv, db, l)
		if err != nil {
			return fmt.Errorf("%s: %w", l.path, err)
		}
		t.Notes = append(t.Notes, fmt.Sprintf("filling the store took %.0f s", filled.Seconds()))
		if err := emit(t); err != nil {
			return err
		}
	}
	return nil
}

// The subjects, in the order of the table.
const (
	restFront = iota
	sqlFront
	restEnd
	sqlEnd
	pageSubjects
)

func measurePages(ctx context.Context, s *settings, srv *server, db *sql.DB, l *listed) (*table, error) {
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: pageClients}}
	defer client.CloseIdleConnections()
	root := srv.REST + l.path + "&offset="
	rest := func(offset func(n int) int) func(int) error {
		return func(n int) error {
			_, err := assaytest.Get(ctx, client, fmt.Sprint(root, offset(n)), srv.key)
			return err
		}
	}
	bareSQL := func(page string, offset func(n int) int) func(int) error {
		return func(n int) error { return l.query(ctx, db, page, offset(n)) }
	}
	behind := l.total - l.limit // the first page
	span := min(walked, l.total/2)
	front, end := func(n int) int { return n % span }, func(n int) int { return behind - n%span }

	first, err := assaytest.Get(ctx, client, fmt.Sprint(root, 0), srv.key)
	if err != nil {
		return nil, srv.Explain(err)
	}
	if err := checkPage(first.Body, l.limit, l.total); err != nil {
		return nil, err
	}

	subjects := [pageSubjects]struct {
		name string
		do   func(n int) error
	}{
		restFront: {"REST, pages near the front", rest(front)},
		sqlFront:  {"SQL alone, the same pages", bareSQL(l.page, front)},
		restEnd:   {"REST, pages near the end", rest(end)},
		sqlEnd:    {"SQL alone, the same pages", bareSQL(l.end, front)},
	}
	var rates [pageSubjects][]float64
	var times [pageSubjects][]float64
	for round := range s.rounds/2 + 2 {
		for i, subject := range subjects {
			runtime.GC()
			var n atomic.Int64
			a, err := callFrom(pageClients, pageSpan, func(int) error { return subject.do(int(n.Add(1))) })
			if err != nil {
				return nil, srv.Explain(fmt.Errorf("%s: %w", subject.name, err))
			}
			if round > 0 { // the first one warms up
				rates[i], times[i] = append(rates[i], a.rate()), append(times[i], a.times...)
			}
		}
	}
	t := &table{
		Title: fmt.Sprintf("GET %s of %s, %.1f KB, over loopback, %d clients, %d rounds",
			l.path, thousands(int64(l.total)), float64(len(first.Body))/1e3, pageClients, len(rates[0])),
		Columns: []string{"requests/s", "p50 ms", "p99 ms"},
	}
	for i, subject := range subjects {
		t.Rows = append(t.Rows, row{subject.name, []value{value(median(rates[i])), value(quantile(times[i], 0.5)), value(quantile(times[i], 0.99))}})
	}
	share := func(a, b int) float64 { return paired(rates[a], rates[b]).median() }
	t.Notes = append(t.Notes,
		"requests/s and ratios are medians of the rounds; each request is for another page",
	)
	t.Targets = append(t.Targets,
		atLeast("pages near the front, share of the SQL's requests/s", sqlTarget, share(restFront, sqlFront)),
		atLeast("pages near the end, share of the SQL's requests/s", sqlTarget, share(restEnd, sqlEnd)),
		atMost("pages near the end, times the p50 of those near the front", lastTarget, quantile(times[restEnd], 0.5)/quantile(times[restFront], 0.5)),
	)
	return t, nil
}

// checkPage reports whether a response is a page with a number of items of a list with at least total.
func checkPage(body []byte, items, total int) error {
	var answer struct {
		Data []json.RawMessage `json:"data"`
		Meta struct {
			Total int `json:"total"`
		} `json:"meta"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return err
	}
	if len(answer.Data) != items || answer.Meta.Total < total {
		return fmt.Errorf("%d items of %d, not %d of at least %d", len(answer.Data), answer.Meta.Total, items, total)
	}
	return nil
}

// query runs the statements of the store for a page and ignores their rows.
func (l *listed) query(ctx context.Context, db *sql.DB, page string, offset int) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	var total int
	if err := tx.QueryRowContext(ctx, l.count, l.org).Scan(&total); err != nil {
		return err
	}
	rows, err := tx.QueryContext(ctx, page, l.org, l.limit, offset)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	cells := make([]any, len(columns))
	for i := range cells {
		cells[i] = new(sql.RawBytes)
	}
	n := 0
	for ; rows.Next(); n++ {
		if err := rows.Scan(cells...); err != nil {
			return err
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	if n != l.limit || total != l.total {
		return fmt.Errorf("%d rows of %d, not %d of %d", n, total, l.limit, l.total)
	}
	return tx.Commit()
}

// openReaders opens the store's file for reading, as the store does.
func openReaders(path string) (*sql.DB, error) {
	const readers = 4
	db, err := sql.Open("sqlite", "file:"+path+"?"+url.Values{
		"_query_only": {"on"}, "_busy_timeout": {"4000"}, "_pragma": {"cache_size(-2048)"},
	}.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(readers)
	db.SetMaxIdleConns(readers)
	return db, nil
}
