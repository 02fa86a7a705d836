// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"cmp"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/codec"
	"assay/internal/store/merge"
)

// claimKey is the subject of claims of a service.
type claimKey struct {
	rule catalog.Rule
	key  delta.Hash128
}

// storedClaim is one value that a service claims for a key.
type storedClaim struct {
	value uint64
	last  delta.Bucket
}

// compareAge orders the claims of a key, newest first.
func compareAge(a, b storedClaim) int {
	return cmp.Or(cmp.Compare(b.last, a.last), cmp.Compare(int64(b.value), int64(a.value)))
}

const findClaims = `SELECT c.svc, c.rule, c.key, c.key_high, c.value, c.last FROM unnest($1::bigint[], $2::smallint[], $3::bigint[]) AS k (svc, rule, key)
	JOIN claims c ON c.svc = k.svc AND c.rule = k.rule AND c.key = k.key`

// queueClaims reads all values of the keys that services claim.
func queueClaims(b *pgx.Batch, bySvc map[int64]*service) {
	var svcs, keys []int64
	var rules []int16
	for svc, s := range bySvc {
		if len(s.facts.Claims) == 0 {
			continue
		}
		s.claims = make(map[claimKey][]storedClaim)
		for cl := range s.facts.Claims {
			k := claimKey{cl.Rule, cl.Key}
			if _, ok := s.claims[k]; !ok {
				s.claims[k] = nil
				svcs, rules, keys = append(svcs, svc), append(rules, int16(codec.RuleNumber(k.rule))), append(keys, int64(k.key.Low))
			}
		}
	}
	if len(svcs) == 0 {
		return
	}
	b.Queue(findClaims, svcs, rules, keys).Query(eachRow(func(rows pgx.Rows) error {
		var svc, low, high, value, last int64
		var number int16
		if err := rows.Scan(&svc, &number, &low, &high, &value, &last); err != nil {
			return err
		}
		rule, _ := codec.RuleByNumber(int64(number)) // the query asks for known rules only
		k := claimKey{rule, delta.Hash128{High: uint64(high), Low: uint64(low)}}
		claims := bySvc[svc].claims
		claims[k] = append(claims[k], storedClaim{uint64(value), delta.Bucket(last)})
		return nil
	}))
}

const (
	// The lower halves of the keys identify the claims of a service and rule. A claim with
	// an existing half is left out.
	addClaims = `INSERT INTO claims (svc, rule, key, value, last, written_at, org, key_text, value_text, key_high)
		SELECT svc, rule, key, value, last, written_at, org, key_text, value_text, key_high
		FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bytea[], $9::bytea[], $10::bigint[])
			AS n (svc, rule, key, value, last, written_at, org, key_text, value_text, key_high) ON CONFLICT DO NOTHING`
	moveClaims = `UPDATE claims c SET last = n.last, written_at = n.written_at
		FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]) AS n (svc, rule, key, value, last, written_at)
		WHERE c.svc = n.svc AND c.rule = n.rule AND c.key = n.key AND c.value = n.value`
	dropClaims = `DELETE FROM claims c USING unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[]) AS n (svc, rule, key, value)
		WHERE c.svc = n.svc AND c.rule = n.rule AND c.key = n.key AND c.value = n.value`
)

// claimRows are rows of claims, in columns.
type claimRows struct {
	svcs, keys, highs, values, lasts, written, orgs []int64
	rules                                           []int16
	keyTexts, valueTexts                            [][]byte
}

func (r *claimRows) add(svc int64, k claimKey, value uint64) {
	r.svcs, r.rules = append(r.svcs, svc), append(r.rules, int16(codec.RuleNumber(k.rule)))
	r.keys, r.values = append(r.keys, int64(k.key.Low)), append(r.values, int64(value))
}

// queueClaimRows writes claims that are new or moved and deletes claims beyond the limit
// for their key. It adds to claimed by how much the claims of the organizations of all of
// them grow.
func (c *commit) queueClaimRows(b *pgx.Batch, services []*service, claimed map[int64]int64) {
	var added, moved, dropped claimRows
	for _, s := range services {
		keys := make(map[claimKey][]storedClaim) // claimed by the facts
		for cl, fact := range s.facts.Claims {
			k := claimKey{cl.Rule, cl.Key}
			keys[k] = append(keys[k], storedClaim{cl.Value, fact.Last})
		}
		// Write in the order of the rows, which are then on few pages.
		for _, k := range slices.SortedFunc(maps.Keys(keys), compareKeys) {
			written := int64(0)
			if k.rule.Claims() == catalog.Instances {
				written = c.now
			}
			news, moves, gone := settle(k, s.claims[k], keys[k])
			if k.rule.Claims() != catalog.Days { // days are few
				room := max(0, c.store.maxClaims-c.claims[s.org]-claimed[s.org]) + int64(len(gone))
				news = news[:min(int64(len(news)), room)]
			}
			for _, n := range news {
				fact := s.facts.Claims[delta.Claim{Rule: k.rule, Key: k.key, Value: n.value}]
				added.add(s.svc, k, n.value)
				added.lasts, added.written, added.orgs = append(added.lasts, int64(n.last)), append(added.written, written), append(added.orgs, s.org)
				added.highs = append(added.highs, int64(k.key.High))
				added.keyTexts, added.valueTexts = append(added.keyTexts, bytesOf(fact.KeyText)), append(added.valueTexts, bytesOf(fact.ValueText))
			}
			for _, m := range moves {
				moved.add(s.svc, k, m.value)
				moved.lasts, moved.written = append(moved.lasts, int64(m.last)), append(moved.written, written)
			}
			for _, g := range gone {
				dropped.add(s.svc, k, g.value)
			}
			if len(news) > 0 || len(moves) > 0 {
				s.changed = true
				claimed[s.org] += int64(len(news) - len(gone))
			}
		}
	}
	if len(added.svcs) > 0 {
		b.Queue(addClaims, added.svcs, added.rules, added.keys, added.values, added.lasts, added.written, added.orgs, added.keyTexts, added.valueTexts, added.highs)
	}
	if n := len(moved.svcs); n > 0 {
		queueUpdate(b, n, moveClaims, moved.svcs, moved.rules, moved.keys, moved.values, moved.lasts, moved.written)
	}
	if len(dropped.svcs) > 0 {
		b.Queue(dropClaims, dropped.svcs, dropped.rules, dropped.keys, dropped.values)
	}
}

func compareKeys(a, b claimKey) int {
	return cmp.Or(cmp.Compare(codec.RuleNumber(a.rule), codec.RuleNumber(b.rule)), cmp.Compare(int64(a.key.Low), int64(b.key.Low)))
}

// settle returns the claims of one key to add, and the stored claims to move and to drop,
// so that the newest merge.MaxClaimValues remain.
func settle(k claimKey, stored, claims []storedClaim) (added, moved, dropped []storedClaim) {
	last := make(map[uint64]delta.Bucket, len(stored)+len(claims))
	for _, s := range stored {
		last[s.value] = s.last
	}
	for _, cl := range claims {
		switch old, ok := last[cl.value]; {
		case !ok:
			added = append(added, cl)
		case old < cl.last:
			moved = append(moved, cl)
		default:
			continue
		}
		last[cl.value] = cl.last
	}
	if k.rule.Claims() != catalog.Days && len(last) > merge.MaxClaimValues {
		all := make([]storedClaim, 0, len(last))
		for value, at := range last {
			all = append(all, storedClaim{value, at})
		}
		slices.SortFunc(all, compareAge)
		past := make(map[uint64]bool)
		for _, cl := range all[merge.MaxClaimValues:] {
			past[cl.value] = true
		}
		isPast := func(cl storedClaim) bool { return past[cl.value] }
		added, moved = slices.DeleteFunc(added, isPast), slices.DeleteFunc(moved, isPast)
		for _, s := range stored {
			if isPast(s) {
				dropped = append(dropped, s)
			}
		}
	}
	slices.SortFunc(added, compareValues)
	slices.SortFunc(moved, compareValues)
	return added, moved, dropped
}

func compareValues(a, b storedClaim) int { return cmp.Compare(int64(a.value), int64(b.value)) }
