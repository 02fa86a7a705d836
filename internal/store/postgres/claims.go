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
)

// maxClaimValues bounds the values kept of one key that one service claims: the
// newest ones. Two are enough for a conflict; the rest is evidence. LOG-001, whose
// values are days, is bounded by its calendar.
const maxClaimValues = delta.MaxItems

// claimKey is what claims of a service are about.
type claimKey struct {
	rule catalog.Rule
	key  uint64
}

// storedClaim is one value that a service claims of a key.
type storedClaim struct {
	value uint64
	last  delta.Bucket
}

// compareAge orders the claims of a key, those that are kept first.
func compareAge(a, b storedClaim) int {
	return cmp.Or(cmp.Compare(b.last, a.last), cmp.Compare(int64(b.value), int64(a.value)))
}

const findClaims = `SELECT c.svc, c.rule, c.key, c.value, c.last FROM unnest($1::bigint[], $2::smallint[], $3::bigint[]) AS k (svc, rule, key)
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
				svcs, rules, keys = append(svcs, svc), append(rules, int16(codec.RuleNumber(k.rule))), append(keys, int64(k.key))
			}
		}
	}
	if len(svcs) == 0 {
		return
	}
	b.Queue(findClaims, svcs, rules, keys).Query(func(rows pgx.Rows) error {
		return each(rows, nil, func(rows pgx.Rows) error {
			var svc, key, value, last int64
			var number int16
			if err := rows.Scan(&svc, &number, &key, &value, &last); err != nil {
				return err
			}
			rule, _ := codec.RuleByNumber(int64(number)) // one that was asked for
			k := claimKey{rule, uint64(key)}
			claims := bySvc[svc].claims
			claims[k] = append(claims[k], storedClaim{uint64(value), delta.Bucket(last)})
			return nil
		})
	})
}

const (
	// A claim may have been forgotten since it was read.
	saveClaims = `INSERT INTO claims AS c (svc, rule, key, value, last, org, written_at, key_text, value_text)
		SELECT svc, rule, key, value, last, org, CASE rule WHEN $1::smallint THEN $2::bigint ELSE 0 END, key_text, value_text
		FROM unnest($3::bigint[], $4::smallint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bytea[], $10::bytea[])
			AS n (svc, rule, key, value, last, org, key_text, value_text)
		ON CONFLICT (svc, rule, key, value) DO UPDATE SET last = excluded.last, written_at = excluded.written_at WHERE c.last < excluded.last`
	dropClaims = `DELETE FROM claims c USING unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[]) AS n (svc, rule, key, value)
		WHERE c.svc = n.svc AND c.rule = n.rule AND c.key = n.key AND c.value = n.value`
)

// claimRows are rows of claims, in columns.
type claimRows struct {
	svcs, keys, values, lasts, orgs []int64
	rules                           []int16
	keyTexts, valueTexts            [][]byte
}

func (r *claimRows) add(svc int64, k claimKey, value uint64) {
	r.svcs, r.rules = append(r.svcs, svc), append(r.rules, int16(codec.RuleNumber(k.rule)))
	r.keys, r.values = append(r.keys, int64(k.key)), append(r.values, int64(value))
}

// queueClaimRows writes the claims that are new or moved, drops those past the bound
// and notes in claimed the organizations that any of them is of.
func (c *commit) queueClaimRows(b *pgx.Batch, services []*service, claimed map[int64]bool) {
	var saved, dropped claimRows
	for _, s := range services {
		keys := make(map[claimKey][]storedClaim) // claimed by the facts
		for cl, fact := range s.facts.Claims {
			k := claimKey{cl.Rule, cl.Key}
			keys[k] = append(keys[k], storedClaim{cl.Value, fact.Last})
		}
		// In the order of the rows, which then lie in few pages.
		for _, k := range slices.SortedFunc(maps.Keys(keys), compareKeys) {
			news, gone := settle(k, s.claims[k], keys[k])
			for _, n := range news {
				fact := s.facts.Claims[delta.Claim{Rule: k.rule, Key: k.key, Value: n.value}]
				saved.add(s.svc, k, n.value)
				saved.lasts, saved.orgs = append(saved.lasts, int64(n.last)), append(saved.orgs, s.org)
				saved.keyTexts, saved.valueTexts = append(saved.keyTexts, bytesOf(fact.KeyText)), append(saved.valueTexts, bytesOf(fact.ValueText))
			}
			for _, g := range gone {
				dropped.add(s.svc, k, g.value)
			}
			if len(news) > 0 {
				s.changed, claimed[s.org] = true, true
			}
		}
	}
	if len(saved.svcs) > 0 {
		b.Queue(saveClaims, int16(codec.RuleNumber(catalog.RES002)), c.now, saved.svcs, saved.rules, saved.keys, saved.values, saved.lasts, saved.orgs, saved.keyTexts, saved.valueTexts)
	}
	if len(dropped.svcs) > 0 {
		b.Queue(dropClaims, dropped.svcs, dropped.rules, dropped.keys, dropped.values)
	}
}

func compareKeys(a, b claimKey) int {
	return cmp.Or(cmp.Compare(codec.RuleNumber(a.rule), codec.RuleNumber(b.rule)), cmp.Compare(int64(a.key), int64(b.key)))
}

// settle returns what to store of the claims of one key and which stored ones to
// drop, so that the newest maxClaimValues are there afterwards.
func settle(k claimKey, stored, claims []storedClaim) (news, gone []storedClaim) {
	last := make(map[uint64]delta.Bucket, len(stored)+len(claims))
	for _, s := range stored {
		last[s.value] = s.last
	}
	for _, cl := range claims {
		if old, ok := last[cl.value]; !ok || old < cl.last {
			last[cl.value] = cl.last
			news = append(news, cl)
		}
	}
	if k.rule != catalog.LOG001 && len(last) > maxClaimValues {
		all := make([]storedClaim, 0, len(last))
		for value, at := range last {
			all = append(all, storedClaim{value, at})
		}
		slices.SortFunc(all, compareAge)
		for _, past := range all[maxClaimValues:] {
			delete(last, past.value)
		}
		forgotten := func(cl storedClaim) bool { _, ok := last[cl.value]; return !ok }
		news = slices.DeleteFunc(news, forgotten)
		for _, s := range stored {
			if forgotten(s) {
				gone = append(gone, s)
			}
		}
	}
	slices.SortFunc(news, func(a, b storedClaim) int { return cmp.Compare(int64(a.value), int64(b.value)) })
	return news, gone
}
