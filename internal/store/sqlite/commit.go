// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
	"assay/internal/store/connpool"
	"assay/internal/store/merge"
	"assay/internal/store/query"
)

// statement identifies a statement that a transaction runs up to thousands of times.
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
	findEntry
	addEntry
	forgetEntry
	findScored
	saveScore
	addScore
	renewInsight
	saveInsight
	findTotal
	saveTotal
	statementCount
)

var statements = [statementCount]string{
	findOrg:        `SELECT org, claims FROM organizations WHERE id = ?`,
	touchClaims:    `UPDATE organizations SET claims_revision = claims_revision + 1, claims = ? WHERE org = ?`,
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
	// The lower halves of the keys identify the claims of a service and rule.
	addClaim: `INSERT INTO claims (svc, rule, key, key_high, value, last, written_at, org, key_text, value_text) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`,
	boundClaims: `DELETE FROM claims WHERE svc = ?1 AND rule = ?2 AND key = ?3 AND value IN (
		SELECT value FROM claims WHERE svc = ?1 AND rule = ?2 AND key = ?3 ORDER BY last DESC, value DESC LIMIT -1 OFFSET ?4)`,
	findSet: `SELECT last, members FROM distinct_sets WHERE hour = ? AND svc = ? AND rule = ? AND key = ?`,
	saveSet: `INSERT INTO distinct_sets (hour, svc, rule, key, last, full, written_at, members) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET last = excluded.last, full = excluded.full, written_at = excluded.written_at, members = excluded.members`,
	findSeries: `SELECT facts FROM series WHERE svc = ?`,
	saveSeries: `INSERT INTO series (svc, oldest, n, facts) VALUES (?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET oldest = excluded.oldest, n = excluded.n, facts = excluded.facts`,
	addLogRecords: query.AddLogRecords,
	findLease:     `SELECT 1 FROM leases WHERE name = ? AND holder = ?`,
	findEntry:     `SELECT 1 FROM journals WHERE name = ? AND seq >= ? LIMIT 1`,
	addEntry:      `INSERT INTO journals (name, seq, data) VALUES (?, ?, ?)`,
	forgetEntry:   `DELETE FROM journals WHERE name = ? AND seq = ?`,
	findScored:    `SELECT svc FROM services WHERE id = ? AND org = ?`,
	saveScore: `UPDATE services SET scored_revision = max(scored_revision, ?), score_id = ?, score = ?, score_evaluated = ?, score_failed = ?,
		score_at = ?, score_window = ?, score_created_at = ? WHERE svc = ?`,
	addScore: `INSERT INTO scores (svc, calculated_at, id, score, evaluated, failed, span, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`,
	// Most updates change only evidence. They leave out the columns that lists are sorted
	// and filtered by, so most indexes stay unchanged.
	renewInsight: `UPDATE insights SET trace_id = ?5, telemetry_at = ?6, updated_at = max(updated_at, ?7), attributes = ?8
		WHERE id = ?1 AND weight = ?2 AND signal = ?3 AND detected_at = ?4 AND (status = ?9 OR status = 3 OR ?9 = 3)`,
	saveInsight: `INSERT INTO insights (id, org, svc, rule, status, weight, signal, mute_reason, trace_id, telemetry_at, detected_at, created_at, updated_at, attributes)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET
			status = iif(status = 3 OR excluded.status = 3, status, excluded.status),
			weight = excluded.weight, signal = excluded.signal, trace_id = excluded.trace_id, telemetry_at = excluded.telemetry_at,
			detected_at = excluded.detected_at, updated_at = max(updated_at, excluded.updated_at), attributes = excluded.attributes`,
	findTotal: `SELECT tally FROM services WHERE svc = ?`,
	saveTotal: `UPDATE services SET tally = ?, signals = ?, revision = revision + ? WHERE svc = ?`,
}

// Commit implements commit.Store. The limit of claims is Config.MaxClaims.
func (s *Store) Commit(ctx context.Context, now time.Time, requests []delta.Request, merge func(fresh []bool) *delta.Delta) error {
	return s.update(ctx, connpool.OwnWork, "commit facts", func(tx *sql.Tx) error {
		c := s.commitIn(ctx, tx)
		c.now, c.at = micros(now), micros(s.now())
		fresh, err := c.note(requests)
		if err != nil {
			return err
		}
		return c.apply(merge(fresh))
	})
}

// commit is a transaction that runs many statements of microseconds each.
type commit struct {
	store    *Store
	tx       *sql.Tx
	ctx      context.Context // never ends
	now      int64
	at       int64 // by the clock of the store
	orgs     map[string]*organizationRow
	prepared [statementCount]*sql.Stmt
}

// organizationRow is an organization that a commit has facts of.
type organizationRow struct {
	org     int64
	claims  int64 // stored, about
	claimed bool  // a claim was added or moved
}

// commitIn returns the commit of a transaction. The end of ctx rolls the transaction back, so no statement needs a
// watcher of its own.
func (s *Store) commitIn(ctx context.Context, tx *sql.Tx) *commit {
	return &commit{store: s, tx: tx, ctx: context.WithoutCancel(ctx), orgs: make(map[string]*organizationRow)}
}

func (c *commit) stmt(st statement) *sql.Stmt {
	if c.prepared[st] == nil {
		c.prepared[st] = c.tx.StmtContext(c.ctx, c.store.commit[st])
	}
	return c.prepared[st]
}

// exec runs a statement and reports whether it changed a row.
func (c *commit) exec(st statement, args ...any) (bool, error) {
	n, err := c.change(st, args...)
	return n > 0, err
}

// change runs a statement and returns the number of rows that it changed.
func (c *commit) change(st statement, args ...any) (int64, error) {
	res, err := c.stmt(st).ExecContext(c.ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// get scans the row of a statement and reports whether there is one.
func (c *commit) get(st statement, dest []any, args ...any) (bool, error) {
	err := c.stmt(st).QueryRowContext(c.ctx, args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func (c *commit) org(id string) (*organizationRow, error) {
	if o := c.orgs[id]; o != nil {
		return o, nil
	}
	o := new(organizationRow)
	ok, err := c.get(findOrg, []any{&o.org, &o.claims}, blobOf(id))
	if err == nil && !ok {
		err = errNoOrganization()
	}
	if err != nil {
		return nil, err
	}
	c.orgs[id] = o
	return o, nil
}

// note inserts the requests and reports which were new. It deletes up to twice as many
// expired requests, so that they do not accumulate between two expiries.
func (c *commit) note(requests []delta.Request) ([]bool, error) {
	fresh := make([]bool, len(requests))
	if len(requests) > 0 {
		if _, err := c.exec(forgetRequests, c.at-query.RequestsKept.Microseconds(), 2*len(requests)); err != nil {
			return nil, err
		}
	}
	for i := range requests {
		q := &requests[i]
		o, err := c.org(q.OrganizationID)
		if err != nil {
			return nil, err
		}
		if fresh[i], err = c.exec(addRequest, o.org, int64(q.Signal), q.Hash[:], c.at); err != nil {
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
		o, err := c.org(id)
		if err != nil {
			return err
		}
		if counts := &d.Organizations[id].LogRecords; *counts != (assay.SeverityCounts{}) {
			if _, err := c.exec(addLogRecords, query.LogRow(o.org, 60, c.now/time.Minute.Microseconds()*60, counts)...); err != nil {
				return err
			}
		}
		services, err := c.find(id, d.Organizations[id].Services)
		if err != nil {
			return err
		}
		for i := range services {
			if err := c.service(o, &services[i]); err != nil {
				return err
			}
		}
		if o.claimed {
			if _, err := c.exec(touchClaims, o.claims, o.org); err != nil {
				return err
			}
		}
	}
	return nil
}

// service is the facts of a delta about a service, and the stored state of that service.
type service struct {
	id    string
	key   assay.ServiceKey
	facts *delta.Service

	svc         int64 // 0: a new service
	first, last int64
	tally       []byte
}

// find looks up the services of an organization and sorts them in the order of their
// rows, new services last. A transaction then changes each page once, even if many
// services share it, and the pages that it needs at a time fit in the cache.
func (c *commit) find(organizationID string, facts map[assay.ServiceKey]*delta.Service) ([]service, error) {
	services := make([]service, 0, len(facts))
	for key, f := range facts {
		services = append(services, service{id: delta.ServiceID(organizationID, key), key: key, facts: f})
	}
	slices.SortFunc(services, func(a, b service) int { return cmp.Compare(a.id, b.id) }) // in the order of the index
	for i := range services {
		s := &services[i]
		if _, err := c.get(findService, []any{&s.svc, &s.first, &s.last, &s.tally}, blobOf(s.id)); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(services, func(a, b service) int {
		return cmp.Compare(uint64(a.svc)-1, uint64(b.svc)-1) // 0 becomes the greatest
	})
	return services, nil
}

// service adds the facts of one service.
func (c *commit) service(o *organizationRow, s *service) error {
	var total codec.Tally
	svc, known := s.svc, s.svc != 0
	if known {
		if err := total.UnmarshalBinary(s.tally); err != nil {
			return err
		}
	} else {
		res, err := c.stmt(addService).ExecContext(c.ctx, blobOf(s.id), o.org, s.key.Namespace, s.key.Name, codec.Fold(s.key.Name), s.key.Environment, s.key.Version, c.now, c.now)
		if err != nil {
			return err
		}
		if svc, err = res.LastInsertId(); err != nil {
			return err
		}
	}

	f := s.facts
	buckets, found := merge.Tallies(f), make(map[delta.Item]delta.Bucket)
	setsChanged, err := c.sets(svc, !known, f, buckets, found)
	if err != nil {
		return err
	}
	claimed, err := c.claims(o, svc, !known, f)
	if err != nil {
		return err
	}
	o.claimed = o.claimed || claimed
	examplesChanged, err := c.examples(svc, f)
	if err != nil {
		return err
	}
	itemsChanged, err := c.items(svc, merge.AddItems(f.Items, found))
	if err != nil {
		return err
	}
	if err := c.series(svc, !known, f); err != nil {
		return err
	}
	counted, err := c.hours(svc, buckets, &total)
	if err != nil {
		return err
	}
	seen := merge.Seen(&s.first, &s.last, f)
	if known && !seen && !counted && !setsChanged && !claimed && !examplesChanged && !itemsChanged {
		return nil
	}
	_, err = c.exec(saveService, s.first, s.last, total.AppendBinary([]byte{}), total.Signals(), c.now, svc)
	return err
}

// hours adds the tallies of buckets to the stored tallies and to total. It reports
// whether there were any.
func (c *commit) hours(svc int64, buckets merge.Buckets, total *codec.Tally) (bool, error) {
	buckets.DropEmpty()
	for b, add := range buckets {
		var blob []byte
		if _, err := c.get(findHour, []any{&blob}, int64(b), svc); err != nil {
			return false, err
		}
		sum, err := merge.Tally(blob, add)
		if err != nil {
			return false, err
		}
		if _, err := c.exec(saveHour, int64(b), svc, sum); err != nil {
			return false, err
		}
		total.Add(add)
	}
	return len(buckets) > 0, nil
}

func (c *commit) examples(svc int64, f *delta.Service) (bool, error) {
	if f.Examples == (codec.Examples{}) {
		return false, nil
	}
	var blob []byte
	if _, err := c.get(findExamples, []any{&blob}, svc); err != nil {
		return false, err
	}
	merged, err := merge.Examples(blob, &f.Examples)
	if err != nil || merged == nil {
		return false, err
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
	merged, oldest, err := merge.Items(blob, items)
	if err != nil || merged == nil {
		return false, err
	}
	return c.exec(saveItems, svc, int64(oldest), merged)
}

// claims stores the claims of a service and reports whether a claim is new or moved. It
// skips the lookup for a new service, which has no stored claims: commits of many new
// services are the largest.
func (c *commit) claims(o *organizationRow, svc int64, isNew bool, f *delta.Service) (bool, error) {
	moved := false
	var last delta.Claim
	values := 0 // of last's key, in this delta
	// Write in the order of the rows, which are then on few pages.
	for _, cl := range slices.SortedFunc(maps.Keys(f.Claims), compareClaims) {
		fact := f.Claims[cl]
		rule, written := int64(codec.RuleNumber(cl.Rule)), int64(0)
		if cl.Rule.Claims() == catalog.Instances {
			written = c.now
		}
		if values++; cl.Rule != last.Rule || cl.Key != last.Key {
			values = 1
		}
		last = cl
		if !isNew {
			// Every claim moves once an hour; few claims are new.
			changed, err := c.exec(moveClaim, int64(fact.Last), written, svc, rule, int64(cl.Key.Low), int64(cl.Value))
			if err != nil {
				return false, err
			}
			if changed {
				moved = true
				continue
			}
		}
		if o.claims >= c.store.maxClaims && cl.Rule.Claims() != catalog.Days { // days are few
			continue
		}
		changed, err := c.exec(addClaim, svc, rule, int64(cl.Key.Low), int64(cl.Key.High), int64(cl.Value), int64(fact.Last), written, o.org, fact.KeyText, fact.ValueText)
		if err != nil {
			return false, err
		}
		if !changed {
			continue
		}
		moved = true
		o.claims++
		if cl.Rule.Claims() != catalog.Days && (!isNew || values > merge.MaxClaimValues) {
			gone, err := c.change(boundClaims, svc, rule, int64(cl.Key.Low), merge.MaxClaimValues)
			if err != nil {
				return false, err
			}
			o.claims -= gone
		}
	}
	return moved, nil
}

func compareClaims(a, b delta.Claim) int {
	return cmp.Or(cmp.Compare(codec.RuleNumber(a.Rule), codec.RuleNumber(b.Rule)),
		cmp.Compare(int64(a.Key.Low), int64(b.Key.Low)), cmp.Compare(int64(a.Value), int64(b.Value)))
}

// sets merges the distinct sets of a service with the stored ones and reports whether one
// changed. It counts observations in buckets and adds findings to found.
func (c *commit) sets(svc int64, isNew bool, f *delta.Service, buckets merge.Buckets, found map[delta.Item]delta.Bucket) (changed bool, err error) {
	for _, k := range slices.SortedFunc(maps.Keys(f.Distinct), merge.CompareSets) { // in the order of the table
		rule := int64(codec.RuleNumber(k.Rule))
		var stored *merge.Set
		if !isNew {
			var last int64
			set := new(merge.Set)
			known, err := c.get(findSet, []any{&last, &set.Members}, k.Hour, svc, rule, int64(k.Key))
			if err != nil {
				return false, err
			}
			if known {
				set.Last = delta.Bucket(last)
				stored = set
			}
		}
		set, err := stored.Add(k, f.Distinct[k], buckets, found)
		if err != nil {
			return false, err
		}
		if set == nil {
			continue
		}
		full := 0
		if set.Full {
			full = 1
		}
		if _, err := c.exec(saveSet, k.Hour, svc, rule, int64(k.Key), int64(set.Last), full, c.now, set.Members); err != nil {
			return false, err
		}
		changed = true
	}
	return changed, nil
}

// series adds the metric series of a service. They change no score.
func (c *commit) series(svc int64, isNew bool, f *delta.Service) error {
	if f.Series.Empty() {
		return nil
	}
	var blob []byte
	if !isNew {
		if _, err := c.get(findSeries, []any{&blob}, svc); err != nil {
			return err
		}
	}
	kept, merged, err := merge.Series(blob, &f.Series)
	if err != nil || merged == nil {
		return err
	}
	_, err = c.exec(saveSeries, svc, int64(kept.Oldest()), int64(kept.Count()), merged)
	return err
}
