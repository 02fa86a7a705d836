// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"assay"
	"assay/internal/delta"
	"assay/internal/store/codec"
	"assay/internal/store/merge"
	"assay/internal/store/query"
)

// beginCommit makes every statement of a commit use the keys. The tables may grow a
// hundredfold before the statistics reflect it.
const beginCommit = beginUpdate + `; set local enable_seqscan = off; set local enable_hashjoin = off; set local enable_mergejoin = off; set local jit = off`

// Commit implements commit.Store. The limit of claims is Config.MaxClaims; replicas that
// commit at the same time may exceed it by what each adds.
//
// The number of round trips does not depend on the number of services: the requests; the
// services, which it locks; their rows; the writes.
func (s *Store) Commit(ctx context.Context, now time.Time, requests []delta.Request, merge func(fresh []bool) *delta.Delta) error {
	forgotten := int64(0)
	err := s.updatePartitions(ctx, ownWork, "commit facts", func(tx pgx.Tx, use func(...partition) error) error {
		c := &commit{store: s, ctx: ctx, tx: tx, use: use, now: micros(now), orgs: make(map[string]int64), claims: make(map[int64]int64)}
		fresh, err := c.note(requests)
		if err != nil {
			return err
		}
		forgotten = c.forgotten
		return c.apply(merge(fresh))
	})
	if err == nil && forgotten > 0 {
		s.forgotten.Store(forgotten)
	}
	return err
}

// commit is one transaction of Commit.
type commit struct {
	store     *Store
	ctx       context.Context
	tx        pgx.Tx
	use       func(...partition) error
	now       int64
	orgs      map[string]int64
	claims    map[int64]int64 // stored claims of organizations, about
	forgotten int64           // requests up to this time have been deleted; 0: none
}

// send runs a batch.
func (c *commit) send(b *pgx.Batch) error {
	if b.Len() == 0 {
		return nil
	}
	return c.tx.SendBatch(c.ctx, b).Close()
}

const (
	findOrgs = `SELECT id, org, claims FROM organizations WHERE id = ANY ($1::uuid[])`
	// $1 is the current time; NULL selects the server's clock.
	addRequests = `INSERT INTO requests (org, signal, hash, at)
		SELECT o.org, r.signal, r.hash, coalesce($1::bigint, ` + serverMicros + `)
		FROM unnest($2::uuid[], $3::smallint[], $4::bytea[]) AS r (id, signal, hash) JOIN organizations o ON o.id = r.id
		ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING RETURNING org, signal, hash`
	// Skip rows that another transaction deletes. Rows deleted before $3 may still be in the
	// index.
	forgetRequests = `WITH forgotten AS (
			DELETE FROM requests WHERE ctid = ANY (ARRAY(
				SELECT ctid FROM requests WHERE at < coalesce($1::bigint, ` + serverMicros + `) - $2::bigint AND at >= $3::bigint
				ORDER BY at LIMIT $4::bigint FOR UPDATE SKIP LOCKED))
			RETURNING at)
		SELECT coalesce(max(at), 0) FROM forgotten`
)

// queueOrgs looks up the rows of organizations that the commit has not read yet.
func (c *commit) queueOrgs(b *pgx.Batch, ids []string) {
	ids = slices.DeleteFunc(ids, func(id string) bool { return c.orgs[id] != 0 })
	if len(ids) == 0 {
		return
	}
	byID := make(map[pgtype.UUID][]string, len(ids))
	for _, id := range ids {
		byID[uuidOf(id)] = append(byID[uuidOf(id)], id)
	}
	b.Queue(findOrgs, uuidsOf(ids)).Query(eachRow(func(rows pgx.Rows) error {
		var id pgtype.UUID
		var org, claims int64
		err := rows.Scan(&id, &org, &claims)
		c.claims[org] = claims
		for _, name := range byID[id] {
			c.orgs[name] = org
		}
		return err
	}))
}

// note inserts the requests and reports which were new. It deletes up to twice as many
// expired requests, so that they do not accumulate between two expiries.
func (c *commit) note(requests []delta.Request) ([]bool, error) {
	fresh := make([]bool, len(requests))
	if len(requests) == 0 {
		return fresh, nil
	}
	type key struct {
		org    int64
		signal int16
		hash   [16]byte
	}
	var (
		ids     = make([]string, len(requests))
		signals = make([]int16, len(requests))
		hashes  = make([][]byte, len(requests))
		added   = make(map[key]bool, len(requests))
	)
	for i := range requests {
		q := &requests[i]
		ids[i], signals[i], hashes[i] = q.OrganizationID, int16(q.Signal), q.Hash[:]
	}
	now := c.store.injectedNow()
	b := new(pgx.Batch)
	c.queueOrgs(b, slices.Compact(slices.Sorted(slices.Values(ids))))
	b.Queue(forgetRequests, now, query.RequestsKept.Microseconds(), c.store.forgotten.Load(), 2*len(requests)).
		QueryRow(func(row pgx.Row) error { return row.Scan(&c.forgotten) })
	b.Queue(addRequests, now, uuidsOf(ids), signals, hashes).Query(eachRow(func(rows pgx.Rows) error {
		var k key
		var hash []byte
		if err := rows.Scan(&k.org, &k.signal, &hash); err != nil {
			return err
		}
		copy(k.hash[:], hash)
		added[k] = true
		return nil
	}))
	if err := c.send(b); err != nil {
		return nil, err
	}
	for i := range requests {
		org, ok := c.orgs[ids[i]]
		if !ok {
			return nil, errNoOrganization()
		}
		k := key{org, signals[i], requests[i].Hash}
		fresh[i] = added[k]
		delete(added, k) // a duplicate is not new
	}
	return fresh, nil
}

// service is a service that a commit has facts of.
type service struct {
	id      pgtype.UUID
	org     int64
	key     assay.ServiceKey
	facts   *delta.Service
	svc     int64
	isNew   bool
	first   int64
	last    int64
	total   codec.Tally
	values  [3][]byte // stored, in the order of valueTables
	claims  map[claimKey][]storedClaim
	sets    map[delta.DistinctKey]*merge.Set
	hours   map[delta.Bucket][]byte // stored
	buckets merge.Buckets           // to be added to hours
	found   map[delta.Item]delta.Bucket
	changed bool
}

func (c *commit) apply(d *delta.Delta) error {
	if d == nil {
		return nil
	}
	services, err := c.lock(d)
	if err != nil {
		return err
	}
	if err := c.read(services); err != nil {
		return err
	}
	return c.write(d, services)
}

const (
	// Rows are locked in the order of svc.
	lockServices = `SELECT svc, id, first_seen_at, last_seen_at, tally FROM services WHERE id = ANY ($1::uuid[]) ORDER BY svc FOR NO KEY UPDATE`
	addServices  = `INSERT INTO services (id, org, namespace, name, environment, version, folded, first_seen_at, last_seen_at, created_at, updated_at, revision, tally)
		SELECT id, org, namespace, name, environment, version, folded, 0, 0, $1::bigint, $1::bigint, 0, ''
		FROM unnest($2::uuid[], $3::bigint[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[]) AS n (id, org, namespace, name, environment, version, folded)
		ORDER BY id ON CONFLICT (id) DO NOTHING RETURNING svc, id`
)

// lock finds and locks the services of d and inserts new ones. It returns all of them in
// the order of their rows.
func (c *commit) lock(d *delta.Delta) ([]*service, error) {
	services := make(map[pgtype.UUID]*service)
	orgs := make(map[*service]string)
	for id, o := range d.Organizations {
		for key, f := range o.Services {
			s := &service{id: uuidOf(delta.ServiceID(id, key)), key: key, facts: f, isNew: true}
			services[s.id], orgs[s] = s, id
		}
	}
	b := new(pgx.Batch)
	c.queueOrgs(b, slices.Collect(maps.Keys(d.Organizations)))
	if len(services) > 0 {
		b.Queue(lockServices, slices.Collect(maps.Keys(services))).Query(eachRow(func(rows pgx.Rows) error {
			var svc, first, last int64
			var id pgtype.UUID
			var tally []byte
			if err := rows.Scan(&svc, &id, &first, &last, &tally); err != nil {
				return err
			}
			s := services[id]
			s.svc, s.first, s.last, s.isNew = svc, first, last, false
			return s.total.UnmarshalBinary(tally)
		}))
	}
	if err := c.send(b); err != nil {
		return nil, err
	}
	for id := range d.Organizations {
		if c.orgs[id] == 0 {
			return nil, errNoOrganization()
		}
	}
	var fresh []*service
	for _, s := range services {
		s.org = c.orgs[orgs[s]]
		if s.isNew {
			fresh = append(fresh, s)
		}
	}
	if err := c.make(fresh, services); err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(services), func(a, b *service) int { return cmp.Compare(a.svc, b.svc) }), nil
}

// make inserts new services. If another transaction has inserted one meanwhile, the
// commit restarts, so that it locks this row in order.
func (c *commit) make(fresh []*service, services map[pgtype.UUID]*service) error {
	if len(fresh) == 0 {
		return nil
	}
	var (
		ids                                       = make([]pgtype.UUID, len(fresh))
		orgs                                      = make([]int64, len(fresh))
		namespaces, names, environments, versions = make([][]byte, len(fresh)), make([][]byte, len(fresh)), make([][]byte, len(fresh)), make([][]byte, len(fresh))
		folded                                    = make([][]byte, len(fresh))
	)
	for i, s := range fresh {
		ids[i], orgs[i] = s.id, s.org
		namespaces[i], names[i] = bytesOf(s.key.Namespace), bytesOf(s.key.Name)
		environments[i], versions[i] = bytesOf(s.key.Environment), bytesOf(s.key.Version)
		folded[i] = codec.Fold(s.key.Name)
	}
	made := 0
	rows, err := c.tx.Query(c.ctx, addServices, c.now, ids, orgs, namespaces, names, environments, versions, folded)
	err = each(rows, err, func(rows pgx.Rows) error {
		var svc int64
		var id pgtype.UUID
		if err := rows.Scan(&svc, &id); err != nil {
			return err
		}
		services[id].svc = svc
		made++
		return nil
	})
	if err == nil && made < len(fresh) {
		err = errStartOver
	}
	return err
}

// read reads the stored values of the services that the facts change, and merges the
// distinct sets, which add counts.
func (c *commit) read(services []*service) error {
	b := new(pgx.Batch)
	bySvc := make(map[int64]*service, len(services))
	for _, s := range services {
		s.buckets, s.found = merge.Tallies(s.facts), make(map[delta.Item]delta.Bucket)
		if !s.isNew {
			bySvc[s.svc] = s
		}
	}
	// New sets are counted in their own bucket.
	if err := c.use(setPartitions(services)...); err != nil {
		return err
	}
	if err := c.use(hourPartitions(services)...); err != nil {
		return err
	}
	queueValues(b, bySvc)
	queueClaims(b, bySvc)
	queueSets(b, bySvc)
	if err := c.send(b); err != nil {
		return err
	}
	for _, s := range services {
		if err := s.addSets(); err != nil {
			return err
		}
		s.buckets.DropEmpty()
	}
	return c.readHours(services, bySvc)
}

// write writes the changes. Rows that many commits share come last, to hold their locks
// briefly.
func (c *commit) write(d *delta.Delta, services []*service) error {
	b := new(pgx.Batch)
	claimed := make(map[int64]int64)
	if err := queueValueRows(b, services); err != nil {
		return err
	}
	c.queueClaimRows(b, services, claimed)
	c.queueSetRows(b, services)
	if err := queueHours(b, services); err != nil {
		return err
	}
	c.queueServices(b, services)
	queueServiceCounts(b, services)
	queueClaimed(b, claimed)
	c.queueLogRecords(b, d)
	lost, err := queueJournals(b, d.Journals)
	if err != nil {
		return err
	}
	if err := c.send(b); err != nil {
		return journalError(err, lost)
	}
	return lost()
}

// queueUpdate updates n rows that the commit has read. If one has expired meanwhile, the
// commit restarts.
func queueUpdate(b *pgx.Batch, n int, query string, args ...any) {
	b.Queue(query, args...).Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() < int64(n) {
			return errStartOver
		}
		return nil
	})
}

const saveServices = `UPDATE services s SET first_seen_at = n.first, last_seen_at = n.last, tally = n.tally, signals = n.signals,
		updated_at = greatest(s.updated_at, $1::bigint), revision = s.revision + 1, unscored = true
	FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::smallint[]) AS n (svc, first, last, tally, signals) WHERE s.svc = n.svc`

// queueServices writes the services that changed.
func (c *commit) queueServices(b *pgx.Batch, services []*service) {
	var svcs, firsts, lasts []int64
	var tallies [][]byte
	var signals []int16
	for _, s := range services {
		seen := merge.Seen(&s.first, &s.last, s.facts)
		for _, t := range s.buckets {
			s.total.Add(t)
		}
		if s.isNew || s.changed || seen || len(s.buckets) > 0 {
			svcs, firsts, lasts = append(svcs, s.svc), append(firsts, s.first), append(lasts, s.last)
			tallies, signals = append(tallies, s.total.AppendBinary([]byte{})), append(signals, int16(s.total.Signals()))
		}
	}
	if len(svcs) > 0 {
		b.Queue(saveServices, c.now, svcs, firsts, lasts, tallies, signals)
	}
}

const (
	addServiceCounts = `INSERT INTO service_counts AS c (org, n) SELECT org, n FROM unnest($1::bigint[], $2::bigint[]) AS a (org, n) ORDER BY org
		ON CONFLICT (org) DO UPDATE SET n = c.n + excluded.n`
	touchClaims = `UPDATE organizations o SET claims_revision = o.claims_revision + 1, claims = greatest(o.claims + a.n, 0)
		FROM (SELECT org FROM organizations WHERE org = ANY ($1::bigint[]) ORDER BY org FOR NO KEY UPDATE) AS l
		JOIN unnest($1::bigint[], $2::bigint[]) AS a (org, n) ON a.org = l.org WHERE o.org = l.org`
)

func queueServiceCounts(b *pgx.Batch, services []*service) {
	counts := make(map[int64]int64)
	for _, s := range services {
		if s.isNew {
			counts[s.org]++
		}
	}
	queueCounts(b, counts)
}

// queueCounts adds to the service counts of organizations.
func queueCounts(b *pgx.Batch, counts map[int64]int64) {
	if len(counts) > 0 {
		orgs, ns := columns(counts)
		b.Queue(addServiceCounts, orgs, ns)
	}
}

// queueClaimed marks the claims of organizations as changed, and adds to their number.
func queueClaimed(b *pgx.Batch, claimed map[int64]int64) {
	if len(claimed) > 0 {
		orgs, ns := columns(claimed)
		b.Queue(touchClaims, orgs, ns)
	}
}

const addLogRecords = `INSERT INTO log_volume AS v (org, span, at, ` + query.LogSeverities + `)
	SELECT org, 60, $1::bigint, ` + query.LogSeverities + ` FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
		AS a (org, ` + query.LogSeverities + `)
	ORDER BY org` + query.MergeLogRecords

// queueLogRecords adds the log records of the organizations to the minute of the commit.
func (c *commit) queueLogRecords(b *pgx.Batch, d *delta.Delta) {
	var orgs []int64
	var counts [assay.SeverityCount][]int64
	for id, o := range d.Organizations {
		if o.LogRecords == (assay.SeverityCounts{}) {
			continue
		}
		orgs = append(orgs, c.orgs[id])
		for severity, n := range o.LogRecords {
			counts[severity] = append(counts[severity], int64(n))
		}
	}
	if len(orgs) == 0 {
		return
	}
	args := []any{c.now / time.Minute.Microseconds() * 60, orgs}
	for _, ns := range counts {
		args = append(args, ns)
	}
	b.Queue(addLogRecords, args...)
}

// columns returns numbers by organization in columns, in the order of the organizations.
func columns(counts map[int64]int64) (orgs, ns []int64) {
	orgs = slices.Sorted(maps.Keys(counts))
	for _, org := range orgs {
		ns = append(ns, counts[org])
	}
	return orgs, ns
}
