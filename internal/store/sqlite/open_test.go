// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
	"assay/internal/store/inspect"
	"assay/internal/store/migrations"
	"assay/internal/store/query"
	"assay/internal/store/sqlite/sqlitetest"
	"assay/internal/store/storetest"
)

func open(t testing.TB, c Config) *Store {
	t.Helper()
	s, err := Open(context.Background(), c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func organization(t testing.TB, s *Store, name string) string {
	t.Helper()
	o := &assay.Organization{Name: name, Tier: assay.TierFree}
	require.NoError(t, s.CreateOrganization(t.Context(), o))
	return o.ID
}

func TestTemporaryFile(t *testing.T) {
	s, err := Open(t.Context(), Config{})
	require.NoError(t, err)
	organization(t, s, "a")
	require.FileExists(t, s.path)
	require.NoError(t, s.Close())
	require.NoDirExists(t, filepath.Dir(s.path))
}

func TestFile(t *testing.T) {
	// A missing directory, and characters with a meaning in a URI.
	path := filepath.Join(t.TempDir(), "new dir", "50%?#&=.db")
	s := open(t, Config{Path: path, Migrate: true})
	organization(t, s, "a")
	for _, suffix := range []string{"", "-wal"} {
		info, err := os.Stat(path + suffix)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode(), "the file holds hashes of keys")
	}
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"} {
		var got string
		require.NoError(t, s.w.QueryRow(`PRAGMA `+pragma).Scan(&got))
		require.Equal(t, want, got, pragma)
	}
	_, err := s.r.Exec(`DELETE FROM organizations`)
	require.Error(t, err, "readers only read")
}

func TestSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "assay.db")
	_, err := Open(t.Context(), Config{Path: path})
	require.ErrorContains(t, err, "migrate the store first")
	s := open(t, Config{Path: path, Migrate: true})
	open(t, Config{Path: path})

	schema, err := s.Schema(t.Context())
	require.NoError(t, err)
	require.NoError(t, schema.Check())
	require.Equal(t, schema.Known, schema.Version)
	require.Positive(t, schema.CompatibleSince)
	require.LessOrEqual(t, schema.CompatibleSince, schema.Version)

	// A newer version has migrated the store and recorded whether this version is compatible.
	for _, since := range []int64{1, schema.Known, schema.Known + 1, 99} {
		require.NoError(t, sqlitetest.Upgrade(t.Context(), path, 99, since))
		for _, migrate := range []bool{false, true} {
			again, err := Open(t.Context(), Config{Path: path, Migrate: migrate})
			if since <= schema.Known {
				require.NoError(t, err)
				organization(t, again, fmt.Sprint(since, migrate))
				require.NoError(t, again.Close())
				continue
			}
			var unfit *inspect.SchemaError
			require.ErrorAs(t, err, &unfit)
			require.False(t, unfit.Older())
			require.ErrorContains(t, err, "schema version 99")
		}
	}
	_, err = s.w.Exec(`DELETE FROM memory WHERE name = ?`, inspect.CompatibleSince)
	require.NoError(t, err)
	_, err = Open(t.Context(), Config{Path: path})
	require.ErrorContains(t, err, "use a newer program", "it does not say")
}

// TestCompatibleSince requires that every migration records the oldest compatible
// version.
func TestCompatibleSince(t *testing.T) {
	want := map[int64]int64{7: 7, 8: 7, 9: 9, 10: 9, 11: 9, 12: 9, 13: 9, 14: 9, 15: 9, 16: 9, 17: 9, 18: 9}
	path := filepath.Join(t.TempDir(), "assay.db")
	db, err := openDB(path, nil, 1)
	require.NoError(t, err)
	defer db.Close()
	p, err := newProvider(db)
	require.NoError(t, err)
	for _, m := range p.ListSources() {
		_, err := p.UpTo(t.Context(), m.Version)
		require.NoError(t, err)
		schema, err := readSchema(t.Context(), db, m.Version)
		require.NoError(t, err)
		require.Equal(t, m.Version, schema.Version)
		require.Equal(t, want[m.Version], schema.CompatibleSince,
			"after migration %d: can programs that know only the version before work on the store? (package migrations says how to tell them)", m.Version)
	}
}

// TestUpgrade migrates a file with the first schema and keeps its data.
func TestUpgrade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "assay.db")
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	dir, err := fs.Sub(migrations.SQLite, "sqlite")
	require.NoError(t, err)
	p, err := goose.NewProvider(goose.DialectSQLite3, db, dir)
	require.NoError(t, err)
	_, err = p.UpTo(t.Context(), 1)
	require.NoError(t, err)
	org, key, tally := uuid.New(), assay.ServiceKey{Name: "Ä-Service"}, new(codec.Tally)
	tally.Usage[delta.Logs] = delta.Usage{Items: 3, Bytes: 300}
	svc := uuid.MustParse(delta.ServiceID(org.String(), key))
	for _, q := range []struct {
		insert string
		args   []any
	}{
		{`INSERT INTO organizations (org, id, name, tier, created_at) VALUES (1, ?, 'acme', 'free', 1)`, []any{org[:]}},
		{`INSERT INTO services (svc, id, org, namespace, name, environment, version, first_seen_at, last_seen_at, created_at, updated_at, revision, tally)
			VALUES (1, ?, 1, '', ?, '', '', 1, 1, 1, 1, 1, ?)`, []any{svc[:], key.Name, tally.AppendBinary(nil)}},
		{`INSERT INTO hours (bucket, svc, tally) VALUES (0, 1, ?)`, []any{tally.AppendBinary(nil)}},
		{`INSERT INTO insights (id, org, svc, rule, status, weight, signal, trace_id, telemetry_at, detected_at, created_at, updated_at, attributes)
			VALUES (x'01', 1, 1, 5, 1, 40, 3, '', 1, 1, 1, 1, '{}'), (x'02', 1, 1, 11, 2, 20, 3, '', 1, 1, 1, 1, '{}')`, nil},
	} {
		_, err := db.Exec(q.insert, q.args...)
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())

	_, err = Open(t.Context(), Config{Path: path})
	require.ErrorContains(t, err, "migrate the store first")
	s := open(t, Config{Path: path, Migrate: true})
	known, err := s.KnownServices(t.Context(), org.String())
	require.NoError(t, err)
	require.Equal(t, []assay.ServiceKey{key}, known)
	usage, err := s.FindUsage(t.Context(), org.String())
	require.NoError(t, err)
	require.Len(t, usage, 1)
	require.Equal(t, svc.String(), usage[0].Service.ID)
	require.Equal(t, assay.SignalUsage{Items: 3, Bytes: 300}, usage[0].Logs)
	rows, total, err := s.FindServiceRows(t.Context(), assay.ServiceFilter{
		OrganizationID: org.String(), Search: "ä-SERV", Signal: assay.SignalLog, Page: assay.Page{Limit: 1},
	})
	require.NoError(t, err)
	require.Equal(t, 1, total)
	require.Equal(t, assay.ImpactCounts{Critical: 1}, rows[0].Active)
	counts, err := s.FindInsightTypeCounts(t.Context(), org.String())
	require.NoError(t, err)
	require.Equal(t, []assay.InsightTypeCount{{Type: "missing_service_name", Active: 1}}, counts)
	for n := range uint64(2) {
		require.NoError(t, s.Commit(t.Context(), time.Now(), nil, func([]bool) *delta.Delta {
			d := new(delta.Delta)
			d.Organization(org.String()).LogRecords[assay.SeverityInfo] = 5
			return d
		}))
		require.EqualValues(t, 5+5*n, usageOf(t, s, org.String()))
	}
}

func TestNotADatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "assay.db")
	require.NoError(t, os.WriteFile(path, []byte("this is a text file, and a long enough one"), 0o600))
	_, err := Open(t.Context(), Config{Path: path, Migrate: true})
	require.Error(t, err)
	_, err = Open(t.Context(), Config{Path: t.TempDir(), Migrate: true})
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err), "%v", err)
}

// TestOpenTogetherRace opens a missing file from several processes.
func TestOpenTogetherRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "assay.db")
	var wg sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		wg.Go(func() {
			s, err := Open(context.Background(), Config{Path: path, Migrate: true})
			if err == nil {
				err = s.Close()
			}
			errs[i] = err
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

func observation(org string, n int) func([]bool) *delta.Delta {
	return func([]bool) *delta.Delta {
		d := new(delta.Delta)
		d.Organization(org).Service(assay.ServiceKey{Name: fmt.Sprint(n)}).Counts(0)[catalog.RES001].Observed = 1
		return d
	}
}

func TestClosed(t *testing.T) {
	s, err := Open(t.Context(), Config{})
	require.NoError(t, err)
	org := organization(t, s, "a")
	require.NoError(t, s.Close())
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(s.Ping(t.Context())))
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(s.Commit(t.Context(), time.Now(), nil, observation(org, 1))))
	_, err = s.FindAPIKey(t.Context(), "aaaaaa")
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
}

// TestCrash opens the files on disk after a commit has returned, as after a crash.
func TestCrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "assay.db")
	s := open(t, Config{Path: path, Migrate: true})
	org := organization(t, s, "a")
	request := delta.Request{OrganizationID: org, Hash: [16]byte{1}}
	require.NoError(t, s.Commit(t.Context(), time.Now(), []delta.Request{request}, observation(org, 1)))
	left := filepath.Join(t.TempDir(), "left.db")
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + suffix)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(left+suffix, b, 0o600))
	}
	after := open(t, Config{Path: left})
	known, err := after.KnownServices(t.Context(), org)
	require.NoError(t, err)
	require.Len(t, known, 1)
	require.NoError(t, after.Commit(t.Context(), time.Now(), []delta.Request{request}, func(fresh []bool) *delta.Delta {
		require.Equal(t, []bool{false}, fresh)
		return nil
	}))
}

// TestFull fills the file up to a limit, as on a full disk.
func TestFull(t *testing.T) {
	s := open(t, Config{Path: filepath.Join(t.TempDir(), "assay.db"), Migrate: true})
	org := organization(t, s, "a")
	var pages int
	require.NoError(t, s.w.QueryRow(`PRAGMA page_count`).Scan(&pages))
	_, err := s.w.Exec(fmt.Sprintf(`PRAGMA max_page_count = %d`, pages+5))
	require.NoError(t, err)
	n := 0
	for err == nil {
		n++
		err = s.Commit(t.Context(), time.Now(), nil, observation(org, n))
	}
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err), "%v", err)

	// The failed commit leaves nothing behind. Reads still work, and so do writes once there
	// is room.
	known, err := s.KnownServices(t.Context(), org)
	require.NoError(t, err)
	require.Len(t, known, n-1)
	_, err = s.w.Exec(`PRAGMA max_page_count = 100000`)
	require.NoError(t, err)
	require.NoError(t, s.Commit(t.Context(), time.Now(), nil, observation(org, n)))
}

// TestLockedRace holds the write lock from another connection.
func TestLockedRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "assay.db")
	s := open(t, Config{Path: path, Migrate: true})
	org := organization(t, s, "a")
	other, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer other.Close()
	conn, err := other.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	lock := func(q string) {
		t.Helper()
		_, err := conn.ExecContext(t.Context(), q)
		require.NoError(t, err)
	}

	lock(`BEGIN IMMEDIATE`)
	_, err = s.FindOrganizationByID(t.Context(), org)
	require.NoError(t, err, "readers do not wait")
	_, err = s.w.Exec(`PRAGMA busy_timeout = 3600000`) // the context ends the wait
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Commit(ctx, time.Now(), nil, observation(org, 1)), context.DeadlineExceeded)

	// A lock released in time is not an error.
	done := make(chan error, 1)
	go func() { done <- s.Commit(t.Context(), time.Now(), nil, observation(org, 1)) }()
	time.Sleep(50 * time.Millisecond)
	lock(`COMMIT`)
	require.NoError(t, <-done)

	_, err = s.w.Exec(`PRAGMA busy_timeout = 50`)
	require.NoError(t, err)
	lock(`BEGIN IMMEDIATE`)
	err = s.Commit(t.Context(), time.Now(), nil, observation(org, 2))
	require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err), "%v", err)
	lock(`COMMIT`)
}

// TestPlans requires that queries of hot pages use their indexes.
func TestPlans(t *testing.T) {
	s := open(t, Config{})
	many := assay.InsightFilter{OrganizationID: "00000000-0000-4000-8000-000000000000"}
	rare := many
	rare.Statuses, rare.Impacts, rare.Signal = []assay.InsightStatus{assay.InsightActive}, []assay.Impact{assay.ImpactLow, assay.ImpactNormal}, assay.SignalLog
	dated := rare
	dated.CreatedFrom, dated.CreatedTo = time.Unix(1, 0), time.Unix(2, 0)
	indexes := map[assay.InsightSort][2]string{ // ascending, descending
		assay.SortCreatedAt:  {"insights_by_created_asc", "insights_by_created"},
		assay.SortDetectedAt: {"insights_by_detected_asc", "insights_by_detected"},
		assay.SortUpdatedAt:  {"insights_by_updated_asc", "insights_by_updated"},
		assay.SortImpact:     {"insights_by_weight_asc", "insights_by_weight"},
		assay.SortSignal:     {"insights_by_signal", "insights_by_signal_desc"},
	}
	recorder := &storetest.Recorder{Row: [2]int64{1, 1000}}
	queries := query.New(recorder, &dialect)
	planOf := func(n int) string {
		st := recorder.Statements[n]
		return explain(t, s, st.SQL, native(st.Args)...)
	}
	for _, f := range []assay.InsightFilter{many, rare, dated} {
		for sort, index := range indexes {
			for i, descending := range []bool{false, true} {
				for _, offset := range []int{10, 980} { // read from either end
					f.Sort, f.Descending, f.Page = sort, descending, assay.Page{Limit: 10, Offset: offset}
					recorder.Statements = nil
					_, _, err := queries.FindInsights(t.Context(), f)
					require.NoError(t, err)
					plan := planOf(1)
					require.Contains(t, plan, "USING COVERING INDEX "+index[i]+" (org=?", "sort %q", sort)
					require.NotContains(t, plan, "SCAN insights")
					require.Equal(t, 1, strings.Count(plan, "TEMP B-TREE"), "reads only the rows of the page: %s", plan)
					if plan = planOf(0); f.CreatedFrom.IsZero() {
						require.Contains(t, plan, "insight_counts")
					} else {
						require.Contains(t, plan, "USING COVERING INDEX insights_by_created (org=? AND created_at>? AND created_at<?)")
					}
				}
			}
		}
	}
	for _, offset := range []int{10, 980} {
		recorder.Statements = nil
		_, _, err := queries.FindServices(t.Context(), many.OrganizationID, assay.Page{Limit: 10, Offset: offset})
		require.NoError(t, err)
		plan := planOf(1)
		require.Contains(t, plan, "USING COVERING INDEX services_by_name (org=?)")
		require.Equal(t, 1, strings.Count(plan, "TEMP B-TREE"), "reads only the rows of the page: %s", plan)
	}
	plan := explain(t, s, `SELECT id FROM services WHERE org = ? AND revision > scored_revision`, 1)
	require.Contains(t, plan, "services_unscored")
	plan = explain(t, s, dialect.DeleteSome(`log_volume`, `org, span, at`, `span = 3600 AND at <= $1`), 1, 10)
	require.Contains(t, plan, "log_volume_by_time (span=? AND at<?)")
	for _, st := range []statement{findHour, findSet, moveClaim, addRequest, findService} {
		args := make([]any, 9)
		n := 0
		for _, c := range statements[st] {
			if c == '?' {
				n++
			}
		}
		require.NotContains(t, explain(t, s, statements[st], args[:n]...), "SCAN", statements[st])
	}
}

func explain(t *testing.T, s *Store, query string, args ...any) string {
	t.Helper()
	plan := ""
	rows, err := s.r.Query(`EXPLAIN QUERY PLAN `+query, args...)
	require.NoError(t, each(rows, err, func(rows *sql.Rows) error {
		var id, parent, unused int
		var detail string
		err := rows.Scan(&id, &parent, &unused, &detail)
		plan += detail + "\n"
		return err
	}))
	return plan
}

// TestUpgradeOfHashes migrates a file with unkeyed hashes.
func TestUpgradeOfHashes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "assay.db")
	db, err := openDB(path, nil, 1)
	require.NoError(t, err)
	p, err := newProvider(db)
	require.NoError(t, err)
	_, err = p.UpTo(t.Context(), 9)
	require.NoError(t, err)
	org := uuid.MustParse(storetest.OldOrganization)
	id := func(name string) []byte {
		return blobOf(delta.ServiceID(storetest.OldOrganization, assay.ServiceKey{Name: name}))
	}
	tally := new(codec.Tally)
	tally.Usage[delta.Metrics] = delta.Usage{Items: 3, Bytes: 300}
	last := int64(storetest.OldBucket)
	for _, q := range []struct {
		insert string
		args   []any
	}{
		{`INSERT INTO organizations (org, id, name, tier, created_at) VALUES (1, ?, 'acme', 'free', 1)`, []any{org[:]}},
		{`INSERT INTO services (svc, id, org, namespace, name, environment, version, first_seen_at, last_seen_at, created_at, updated_at, revision, tally)
			VALUES (1, ?, 1, '', 'a', '', '', 1, 1, 1, 1, 1, ?), (2, ?, 1, '', 'b', '', '', 1, 1, 1, 1, 1, x'')`, []any{id("a"), tally.AppendBinary(nil), id("b")}},
		{
			`INSERT INTO claims (svc, rule, key, value, last, org, key_text, value_text, written_at) VALUES
			(1, ?1, 77, 10, ?3, 1, 'metric 77', 'unit 10', 0), (2, ?1, 77, 11, ?3, 1, 'metric 77', 'unit 11', 0),
			(1, ?2, 1, 20000, ?3, 1, '', '', 0), (1, ?2, 1, 20001, ?3, 1, '', '', 0), (1, ?2, 2, 20000, ?3, 1, '', '', 0)`,
			[]any{int64(codec.RuleNumber(catalog.MET003)), int64(codec.RuleNumber(catalog.LOG001)), last},
		},
		{
			`INSERT INTO distinct_sets (hour, svc, rule, key, last, full, written_at, members) VALUES (?3, 1, ?1, 0, ?3, 0, 1, ?4), (?3, 1, ?2, 0, ?3, 0, 1, ?4)`,
			[]any{int64(codec.RuleNumber(catalog.SPA003)), int64(codec.RuleNumber(catalog.MET001)), last, storetest.OldSet()},
		},
		{`INSERT INTO series (svc, oldest, n, facts) VALUES (1, ?, 3, ?)`, []any{last, storetest.OldSeries()}},
	} {
		_, err := db.Exec(q.insert, q.args...)
		require.NoError(t, err, q.insert)
	}
	require.NoError(t, db.Close())
	storetest.TestUpgraded(t, open(t, Config{Path: path, Migrate: true}))
}
