// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
)

// A statement that a commit runs, possibly thousands of times.
type statement int

const (
	findOrg statement = iota
	touchClaims
	addRequest
	forgetRequests
	findService
	addService
	saveService
	findHour
	saveHour
	findExamples
	saveExamples
	findItems
	saveItems
	moveClaim
	addClaim
	boundClaims
	findSet
	saveSet
	findSeries
	saveSeries
	addLogRecords
	findLease
	addEntry
	forgetEntry
	statementCount
)

var statements = [statementCount]string{
	findOrg:        `SELECT org FROM organizations WHERE id = ?`,
	touchClaims:    `UPDATE organizations SET claims_revision = claims_revision + 1 WHERE org = ?`,
	addRequest:     `INSERT INTO requests (org, signal, hash, at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
	forgetRequests: `DELETE FROM requests WHERE (org, signal, hash) IN (SELECT org, signal, hash FROM requests WHERE at < ? ORDER BY at LIMIT ?)`,
	findService:    `SELECT svc, first_seen_at, last_seen_at, tally FROM services WHERE id = ?`,
	addService: `INSERT INTO services (id, org, namespace, name, folded, environment, version, first_seen_at, last_seen_at, created_at, updated_at, revision, tally)
		VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?, 0, x'')`,
	saveService: `UPDATE services SET first_seen_at = ?, last_seen_at = ?, tally = ?, signals = ?, updated_at = max(updated_at, ?), revision = revision + 1
		WHERE svc = ?`,
	findHour:     `SELECT tally FROM hours WHERE bucket = ? AND svc = ?`,
	saveHour:     `INSERT INTO hours (bucket, svc, tally) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET tally = excluded.tally`,
	findExamples: `SELECT facts FROM examples WHERE svc = ?`,
	saveExamples: `INSERT INTO examples (svc, facts) VALUES (?, ?) ON CONFLICT DO UPDATE SET facts = excluded.facts`,
	findItems:    `SELECT facts FROM items WHERE svc = ?`,
	saveItems:    `INSERT INTO items (svc, oldest, facts) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET oldest = excluded.oldest, facts = excluded.facts`,
	moveClaim:    `UPDATE claims SET last = ?1, written_at = ?2 WHERE svc = ?3 AND rule = ?4 AND key = ?5 AND value = ?6 AND last < ?1`,
	addClaim: `INSERT INTO claims (svc, rule, key, value, last, written_at, org, key_text, value_text) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`,
	boundClaims: `DELETE FROM claims WHERE svc = ?1 AND rule = ?2 AND key = ?3 AND value IN (
		SELECT value FROM claims WHERE svc = ?1 AND rule = ?2 AND key = ?3 ORDER BY last DESC, value DESC LIMIT -1 OFFSET ?4)`,
	findSet: `SELECT last, members FROM distinct_sets WHERE hour = ? AND svc = ? AND rule = ? AND key = ?`,
	saveSet: `INSERT INTO distinct_sets (hour, svc, rule, key, last, full, written_at, members) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET last = excluded.last, full = excluded.full, written_at = excluded.written_at, members = excluded.members`,
	findSeries: `SELECT facts FROM series WHERE svc = ?`,
	saveSeries: `INSERT INTO series (svc, oldest, n, facts) VALUES (?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET oldest = excluded.oldest, n = excluded.n, facts = excluded.facts`,
	addLogRecords: `INSERT INTO log_records (org, severity, n) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n`,
	findLease:     `SELECT 1 FROM leases WHERE name = ? AND holder = ?`,
	addEntry:      `INSERT INTO journals (name, seq, data) VALUES (?, ?, ?)`,
	forgetEntry:   `DELETE FROM journals WHERE name = ? AND seq = ?`,
}

// maxClaimValues bounds the values kept of one key that one service claims: the
// newest ones. Two are enough for a conflict; the rest is evidence. LOG-001,
// whose values are days, is bounded by its calendar.
const maxClaimValues = delta.MaxItems

// Commit adds what merge returns to the stored facts, in one transaction that is
// on disk when Commit returns. It notes the requests, and fresh[i] tells merge
// whether requests[i] was not seen in the last minutes. An organization that does
// not exist is CodeNotFound, and nothing is stored; a journal that its holder has
// lost is delta.ErrJournalLost, and nothing is stored either. How long ago a
// request was seen is judged by the store's own clock.
func (s *Store) Commit(ctx context.Context, now time.Time, requests []delta.Request, merge func(fresh []bool) *delta.Delta) error {
	return s.update(ctx, "commit facts", func(tx *sql.Tx) error {
		// Its statements are many and each takes microseconds. The end of ctx rolls
		// the transaction back; no statement needs a watcher of its own.
		c := &commit{store: s, tx: tx, ctx: context.WithoutCancel(ctx), now: micros(now), at: micros(s.now()), orgs: make(map[string]int64)}
		fresh, err := c.note(requests)
		if err != nil {
			return err
		}
		return c.apply(merge(fresh))
	})
}

// commit is one transaction of Commit.
type commit struct {
	store    *Store
	tx       *sql.Tx
	ctx      context.Context // never ends
	now      int64
	at       int64 // by the clock of the store
	orgs     map[string]int64
	prepared [statementCount]*sql.Stmt
}

func (c *commit) stmt(st statement) *sql.Stmt {
	if c.prepared[st] == nil {
		c.prepared[st] = c.tx.StmtContext(c.ctx, c.store.commit[st])
	}
	return c.prepared[st]
}

// exec runs a statement and tells whether it changed anything.
func (c *commit) exec(st statement, args ...any) (bool, error) {
	res, err := c.stmt(st).ExecContext(c.ctx, args...)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// get scans the one row of a statement and tells whether there is one.
func (c *commit) get(st statement, dest []any, args ...any) (bool, error) {
	err := c.stmt(st).QueryRowContext(c.ctx, args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func (c *commit) org(id string) (int64, error) {
	if org, ok := c.orgs[id]; ok {
		return org, nil
	}
	var org int64
	ok, err := c.get(findOrg, []any{&org}, blobOf(id))
	if err == nil && !ok {
		err = errNoOrganization()
	}
	if err != nil {
		return 0, err
	}
	c.orgs[id] = org
	return org, nil
}

// note inserts the requests and tells which were new. It forgets twice as many
// that are old enough, so that between two expiries they do not pile up.
func (c *commit) note(requests []delta.Request) ([]bool, error) {
	fresh := make([]bool, len(requests))
	if len(requests) > 0 {
		if _, err := c.exec(forgetRequests, c.at-requestsKept.Microseconds(), 2*len(requests)); err != nil {
			return nil, err
		}
	}
	for i := range requests {
		q := &requests[i]
		org, err := c.org(q.OrganizationID)
		if err != nil {
			return nil, err
		}
		if fresh[i], err = c.exec(addRequest, org, int64(q.Signal), q.Hash[:], c.at); err != nil {
			return nil, err
		}
	}
	return fresh, nil
}

func (c *commit) apply(d *delta.Delta) error {
	if d == nil {
		return nil
	}
	if err := c.journals(d.Journals); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(d.Organizations)) {
		org, err := c.org(id)
		if err != nil {
			return err
		}
		if err := c.logRecords(org, &d.Organizations[id].LogRecords); err != nil {
			return err
		}
		claimed := false
		for key, svc := range d.Organizations[id].Services {
			moved, err := c.service(org, delta.ServiceID(id, key), key, svc)
			if err != nil {
				return err
			}
			claimed = claimed || moved
		}
		if claimed {
			if _, err := c.exec(touchClaims, org); err != nil {
				return err
			}
		}
	}
	return nil
}

// service adds the facts of one service and tells whether a claim moved.
func (c *commit) service(org int64, id string, key assay.ServiceKey, f *delta.Service) (claimed bool, err error) {
	var (
		svc, first, last int64
		total            codec.Tally
		blob             []byte
	)
	known, err := c.get(findService, []any{&svc, &first, &last, &blob}, blobOf(id))
	if err != nil {
		return false, err
	}
	if known {
		if err := total.UnmarshalBinary(blob); err != nil {
			return false, err
		}
	} else {
		res, err := c.stmt(addService).ExecContext(c.ctx, blobOf(id), org, key.Namespace, key.Name, codec.Fold(key.Name), key.Environment, key.Version, c.now, c.now)
		if err != nil {
			return false, err
		}
		if svc, err = res.LastInsertId(); err != nil {
			return false, err
		}
	}

	buckets := talliesOf(f)
	items := f.Items
	setsChanged, found, err := c.sets(svc, !known, f, buckets)
	if err != nil {
		return false, err
	}
	if len(found) > 0 {
		items = maps.Clone(items)
		if items == nil {
			items = found
		}
		for it, b := range found {
			items[it] = max(items[it], b)
		}
	}
	if claimed, err = c.claims(org, svc, !known, f); err != nil {
		return false, err
	}
	examplesChanged, err := c.examples(svc, f)
	if err != nil {
		return false, err
	}
	itemsChanged, err := c.items(svc, items)
	if err != nil {
		return false, err
	}
	if err := c.series(svc, !known, f); err != nil {
		return false, err
	}
	counted, err := c.hours(svc, buckets, &total)
	if err != nil {
		return false, err
	}
	seen := false
	if f.FirstSeen != 0 {
		from, to := nanosToMicros(f.FirstSeen), nanosToMicros(f.LastSeen)
		if first == 0 || from < first {
			first, seen = from, true
		}
		if to > last {
			last, seen = to, true
		}
	}
	if known && !seen && !counted && !setsChanged && !claimed && !examplesChanged && !itemsChanged {
		return false, nil
	}
	_, err = c.exec(saveService, first, last, total.AppendBinary([]byte{}), total.Signals(), c.now, svc)
	return claimed, err
}

// talliesOf sums up verdicts and usage by bucket.
func talliesOf(f *delta.Service) map[delta.Bucket]*codec.Tally {
	buckets := make(map[delta.Bucket]*codec.Tally, len(f.Verdicts))
	for i := range f.Verdicts {
		tallyOf(buckets, f.Verdicts[i].Bucket).Add(&codec.Tally{Counts: f.Verdicts[i].Counts})
	}
	for i := range f.Usage {
		tallyOf(buckets, f.Usage[i].Bucket).Add(&codec.Tally{Usage: f.Usage[i].Usage})
	}
	return buckets
}

func tallyOf(buckets map[delta.Bucket]*codec.Tally, b delta.Bucket) *codec.Tally {
	t := buckets[b]
	if t == nil {
		t = new(codec.Tally)
		buckets[b] = t
	}
	return t
}

// hours adds the tallies of buckets to the stored ones and to total, and tells
// whether there were any.
func (c *commit) hours(svc int64, buckets map[delta.Bucket]*codec.Tally, total *codec.Tally) (bool, error) {
	changed := false
	for b, add := range buckets {
		if *add == (codec.Tally{}) {
			continue
		}
		var blob []byte
		if _, err := c.get(findHour, []any{&blob}, int64(b), svc); err != nil {
			return false, err
		}
		var sum codec.Tally
		if err := sum.UnmarshalBinary(blob); err != nil {
			return false, err
		}
		sum.Add(add)
		if _, err := c.exec(saveHour, int64(b), svc, sum.AppendBinary(nil)); err != nil {
			return false, err
		}
		total.Add(add)
		changed = true
	}
	return changed, nil
}

func (c *commit) examples(svc int64, f *delta.Service) (bool, error) {
	if f.Examples == (codec.Examples{}) {
		return false, nil
	}
	var blob []byte
	if _, err := c.get(findExamples, []any{&blob}, svc); err != nil {
		return false, err
	}
	var kept delta.Service
	if err := codec.DecodeExamples(blob, &kept.Examples); err != nil {
		return false, err
	}
	for r, e := range f.Examples {
		if e != nil {
			kept.AddExample(catalog.Rule(r), e)
		}
	}
	merged := codec.AppendExamples(nil, &kept.Examples)
	if bytes.Equal(merged, blob) {
		return false, nil
	}
	return c.exec(saveExamples, svc, merged)
}

func (c *commit) items(svc int64, items map[delta.Item]delta.Bucket) (bool, error) {
	if len(items) == 0 {
		return false, nil
	}
	var blob []byte
	if _, err := c.get(findItems, []any{&blob}, svc); err != nil {
		return false, err
	}
	var kept delta.Service
	var err error
	if kept.Items, err = codec.DecodeItems(blob); err != nil {
		return false, err
	}
	for it, b := range items {
		kept.AddItem(it, b)
	}
	merged := codec.AppendItems(nil, kept.Items)
	if bytes.Equal(merged, blob) {
		return false, nil
	}
	return c.exec(saveItems, svc, int64(oldest(kept.Items)), merged)
}

func oldest(items map[delta.Item]delta.Bucket) delta.Bucket {
	o := delta.Bucket(math.MaxInt64)
	for _, b := range items {
		o = min(o, b)
	}
	return o
}

// claims stores the claims of a service and tells whether one is new or moved. Of
// a new service nothing is stored yet, so there is nothing to look up: services
// that are all seen for the first time make the largest commits.
func (c *commit) claims(org, svc int64, isNew bool, f *delta.Service) (bool, error) {
	moved := false
	var last delta.Claim
	values := 0 // of last's key, in this delta
	// In the order of their rows, which then lie in few pages.
	for _, cl := range slices.SortedFunc(maps.Keys(f.Claims), compareClaims) {
		fact := f.Claims[cl]
		rule, written := int64(codec.RuleNumber(cl.Rule)), int64(0)
		if cl.Rule == catalog.RES002 {
			written = c.now
		}
		if values++; cl.Rule != last.Rule || cl.Key != last.Key {
			values = 1
		}
		last = cl
		if !isNew {
			// Every claim moves once an hour, few are new.
			changed, err := c.exec(moveClaim, int64(fact.Last), written, svc, rule, int64(cl.Key), int64(cl.Value))
			if err != nil {
				return false, err
			}
			if changed {
				moved = true
				continue
			}
		}
		changed, err := c.exec(addClaim, svc, rule, int64(cl.Key), int64(cl.Value), int64(fact.Last), written, org, fact.KeyText, fact.ValueText)
		if err != nil {
			return false, err
		}
		if !changed {
			continue
		}
		moved = true
		if cl.Rule != catalog.LOG001 && (!isNew || values > maxClaimValues) {
			if _, err := c.exec(boundClaims, svc, rule, int64(cl.Key), maxClaimValues); err != nil {
				return false, err
			}
		}
	}
	return moved, nil
}

func compareClaims(a, b delta.Claim) int {
	return cmp.Or(cmp.Compare(codec.RuleNumber(a.Rule), codec.RuleNumber(b.Rule)),
		cmp.Compare(int64(a.Key), int64(b.Key)), cmp.Compare(int64(a.Value), int64(b.Value)))
}

func compareSets(a, b delta.DistinctKey) int {
	return cmp.Or(cmp.Compare(a.Hour, b.Hour), cmp.Compare(codec.RuleNumber(a.Rule), codec.RuleNumber(b.Rule)), cmp.Compare(int64(a.Key), int64(b.Key)))
}

// sets merges the distinct sets of a service with the stored ones. What it
// observes it counts in buckets; what it finds is returned as evidence.
func (c *commit) sets(svc int64, isNew bool, f *delta.Service, buckets map[delta.Bucket]*codec.Tally) (changed bool, found map[delta.Item]delta.Bucket, err error) {
	for _, k := range slices.SortedFunc(maps.Keys(f.Distinct), compareSets) { // as they lie in the table
		fact := f.Distinct[k]
		at, full, wrote, err := c.set(svc, isNew, k, fact, buckets)
		if err != nil {
			return false, nil, fmt.Errorf("distinct set of rule %s: %w", k.Rule.ID(), err)
		}
		changed = changed || wrote
		if !full || k.Rule != catalog.MET001 {
			continue
		}
		for list, text := range map[delta.List]string{delta.MetricNames: fact.Metric, delta.AttributeKeys: fact.Attr} {
			if text == "" {
				continue
			}
			if found == nil {
				found = make(map[delta.Item]delta.Bucket)
			}
			it := delta.Item{Rule: k.Rule, List: list, Text: text}
			found[it] = max(found[it], at)
		}
	}
	return changed, found, nil
}

// set merges one set. An observation is counted when the set is new or was seen
// in a newer bucket, a failure with it when the set is full, and otherwise when
// it becomes full now. It returns the bucket and whether a failure was counted,
// and whether anything was stored.
func (c *commit) set(svc int64, isNew bool, k delta.DistinctKey, fact *delta.DistinctFact, buckets map[delta.Bucket]*codec.Tally) (at delta.Bucket, failed, changed bool, err error) {
	var (
		last    int64
		members []byte
		wasFull bool
		set     = &fact.Values
	)
	known := false
	if !isNew {
		known, err = c.get(findSet, []any{&last, &members}, k.Hour, svc, int64(codec.RuleNumber(k.Rule)), int64(k.Key))
		if err != nil {
			return 0, false, false, err
		}
	}
	if known {
		set = &delta.Set{Limit: fact.Values.Limit}
		if err := set.UnmarshalBinary(members); err != nil {
			return 0, false, false, err
		}
		wasFull = set.Full()
		set.Merge(&fact.Values)
	}
	full := set.Full()
	moved := !known || int64(fact.Last) > last
	at = delta.Bucket(max(last, int64(fact.Last)))
	if !known {
		at = fact.Last
	}
	failed = full && (moved || !wasFull)
	merged, err := set.MarshalBinary()
	if err != nil {
		return 0, false, false, err
	}
	if !moved && bytes.Equal(merged, members) {
		return at, false, false, nil
	}
	if moved || failed {
		count := &tallyOf(buckets, at).Counts[k.Rule]
		if moved {
			count.Observed++
		}
		if failed {
			count.Failed++
		}
	}
	fullColumn := 0
	if full {
		fullColumn = 1
	}
	changed, err = c.exec(saveSet, k.Hour, svc, int64(codec.RuleNumber(k.Rule)), int64(k.Key), int64(at), fullColumn, c.now, merged)
	return at, failed, changed, err
}

// nanosToMicros turns an event time into its stored form.
func nanosToMicros(ns uint64) int64 { return int64(min(ns, math.MaxInt64) / 1000) }

// KnownServices returns the keys of the services kept for an organization.
func (s *Store) KnownServices(ctx context.Context, organizationID string) ([]assay.ServiceKey, error) {
	var keys []assay.ServiceKey
	rows, err := s.r.QueryContext(ctx, `SELECT namespace, name, environment, version FROM services
		WHERE org = (SELECT org FROM organizations WHERE id = ?)`, blobOf(organizationID))
	err = each(rows, err, func(rows *sql.Rows) error {
		var k assay.ServiceKey
		if err := rows.Scan(&k.Namespace, &k.Name, &k.Environment, &k.Version); err != nil {
			return err
		}
		keys = append(keys, k)
		return nil
	})
	if err != nil {
		return nil, s.fail(ctx, "list known services", err)
	}
	return keys, nil
}

// KnownMetricNames returns the hashes of the metric names kept of each service
// of an organization: the keys of its MET-003 claims.
func (s *Store) KnownMetricNames(ctx context.Context, organizationID string) (map[assay.ServiceKey][]uint64, error) {
	names := make(map[assay.ServiceKey][]uint64)
	rows, err := s.r.QueryContext(ctx, `SELECT DISTINCT s.namespace, s.name, s.environment, s.version, c.key
		FROM services s JOIN claims c ON c.svc = s.svc AND c.rule = ?
		WHERE s.org = (SELECT org FROM organizations WHERE id = ?)`, int64(codec.RuleNumber(catalog.MET003)), blobOf(organizationID))
	err = each(rows, err, func(rows *sql.Rows) error {
		var k assay.ServiceKey
		var hash int64
		if err := rows.Scan(&k.Namespace, &k.Name, &k.Environment, &k.Version, &hash); err != nil {
			return err
		}
		names[k] = append(names[k], uint64(hash))
		return nil
	})
	if err != nil {
		return nil, s.fail(ctx, "list known metric names", err)
	}
	return names, nil
}
