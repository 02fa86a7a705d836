// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/store/connpool"
	"assay/internal/store/query"
)

// meter is an engine that counts the rows that transactions read and change, and lets
// some of them fail.
type meter struct {
	query.Engine
	rows int                                             // most of one view or chunk
	fail func(operation string, chunk int) (failed bool) // may be nil
	done map[string]int                                  // chunks by operation
}

// errMeter is the error of a transaction that fails.
var errMeter = errors.New("storetest: the transaction fails")

// counted makes the statements of a batch count their rows.
func counted(b *query.Batch, n *int) (changed []int64) {
	changed = make([]int64, len(b.Statements))
	for i := range b.Statements {
		st := &b.Statements[i]
		switch each := st.Each; {
		case each != nil:
			st.Each = func(r query.Row) error {
				*n++
				return each(r)
			}
		case st.Changed == nil:
			st.Changed = &changed[i]
		}
	}
	return changed
}

func (m *meter) View(ctx context.Context, pool connpool.Pool, operation string, steps ...func(*query.Batch)) error {
	n := 0
	metered := make([]func(*query.Batch), len(steps))
	for i, step := range steps {
		metered[i] = func(b *query.Batch) {
			step(b)
			counted(b, &n)
		}
	}
	err := m.Engine.View(ctx, pool, operation, metered...)
	m.rows = max(m.rows, n)
	return err
}

func (m *meter) Chunk(ctx context.Context, pool connpool.Pool, operation string, do func(query.Tx) error) error {
	m.done[operation]++
	return m.Engine.Chunk(ctx, pool, operation, func(tx query.Tx) error {
		metered := &meteredTx{Tx: tx}
		err := do(metered)
		m.rows = max(m.rows, metered.n)
		if err == nil && m.fail != nil && m.fail(operation, m.done[operation]) {
			err = errMeter
		}
		return err
	})
}

type meteredTx struct {
	query.Tx
	n int
}

func (t *meteredTx) Send(ctx context.Context, b *query.Batch) error {
	changed := counted(b, &t.n)
	err := t.Tx.Send(ctx, b)
	for _, n := range changed {
		t.n += int(n)
	}
	return err
}

// TestExpireChunks lets one organization have more data to expire than one transaction
// deletes, and transactions for it fail. No transaction takes more than some thousand
// rows, and the data of others expires. e and d are the engine and the dialect of st.
func TestExpireChunks(t *testing.T, st Store, e query.Engine, d *query.Dialect) {
	const many, most = 7000, 5000
	ctx, hour := t.Context(), bucket(epoch)
	old := hour - 100*3600
	s := &suite{Store: st, t: t, clock: new(clock)}
	commit := func(org, name string, fill func(f *delta.Service)) {
		t.Helper()
		s.commit(one(org, named(name), func(f *delta.Service) {
			f.Seen(uint64(epoch.UnixNano()))
			fill(f)
		}))
	}
	rest := func(f *delta.Service) {
		f.AddItem(delta.Item{Rule: catalog.RES001, Text: "x"}, old)
		f.Series.Add(1, old)
		f.AddClaim(delta.Claim{Rule: catalog.MET003, Key: delta.Hash128{High: 1, Low: 1}, Value: 1}, delta.ClaimFact{Last: old})
	}
	first, second := s.organization(), s.organization()
	for i := range 50 {
		commit(first, fmt.Sprint(i), rest)
	}
	commit(first, "claims", func(f *delta.Service) {
		for i := range uint64(many) { // contested ones, and ones to forget
			f.AddClaim(delta.Claim{Rule: catalog.RES002, Key: delta.Hash128{High: 1, Low: delta.Mix(i/2, 1)}, Value: i}, delta.ClaimFact{Last: old})
			f.AddClaim(delta.Claim{Rule: catalog.RES002, Key: delta.Hash128{High: 1, Low: delta.Mix(many+i, 1)}, Value: 1}, delta.ClaimFact{Last: hour})
		}
	})
	commit(second, "after", rest)

	m := &meter{Engine: e, done: make(map[string]int)}
	m.fail = func(_ string, chunk int) bool { return chunk == 1 }
	q := query.New(m, d)
	expire := func() error { return q.Expire(ctx, epoch.Add(25*time.Hour), hour, hour) }
	err := expire()
	require.ErrorIs(t, err, errMeter)
	require.ErrorContains(t, err, "storetest")
	require.Greater(t, m.done["delete old claims"], 2)
	left := s.rows()
	require.Positive(t, left["claims"])
	require.LessOrEqual(t, left["claims"], int64(2000+1000))
	require.EqualValues(t, 25, left["items"])
	require.EqualValues(t, 25, left["series"])

	m.fail = nil
	require.NoError(t, expire())
	left = s.rows()
	for _, table := range []string{"claims", "items", "series"} {
		require.Zero(t, left[table], table)
	}
	require.Positive(t, m.rows)
	require.LessOrEqual(t, m.rows, most)
}

// TestPatchChunks deletes many large patches. Each transaction deletes some megabytes of them, and one that fails delays
// neither the patches of other repositories nor the end of access. e and d are the engine and the dialect of st.
func TestPatchChunks(t *testing.T, st Store, e query.Engine, d *query.Dialect) {
	const many, most = 20, 8
	s := &suite{Store: st, t: t, clock: new(clock)}
	ctx, org := t.Context(), s.organization()
	i := s.installation(org)
	i.Credential, i.Write = []byte("sealed"), true
	require.NoError(t, s.SaveInstallation(ctx, i))
	repos := s.repositories(i, "a", "b")
	patch := func(r *assay.Repository, n int) {
		t.Helper()
		for range n {
			run := s.started(r, "replica")
			require.NoError(t, s.SavePatch(ctx, "replica", run.ID, make([]byte, assay.MaxPatchBytes)))
			s.end("replica", run)
		}
	}
	var before []int64 // patches before each transaction
	fails := 0         // the transaction that fails
	m := &meter{Engine: e, done: make(map[string]int)}
	m.fail = func(string, int) bool {
		before = append(before, s.rows()["run_patches"])
		return len(before) == fails
	}
	q := query.New(m, d)
	deletesPieces := func() {
		t.Helper()
		for n, left := range append(before, s.rows()["run_patches"])[1:] {
			require.LessOrEqual(t, before[n]-left, int64(most))
		}
	}

	for _, r := range repos {
		patch(r, many)
		for range assay.MaxRepositoryRuns {
			require.NoError(t, s.CancelRun(ctx, org, s.schedule(r, "").ID))
		}
	}
	fails = 3 // after those of findings and states: the first repository
	require.ErrorIs(t, q.ExpireCodebase(ctx, epoch), errMeter)
	require.EqualValues(t, many, s.rows()["run_patches"], "those of the repository that failed")
	require.NoError(t, q.ExpireCodebase(ctx, epoch))
	require.Zero(t, s.rows()["run_patches"])
	deletesPieces()

	patch(repos[0], many)
	before, fails = nil, 2
	require.ErrorIs(t, q.DeleteInstallation(ctx, org, i.ID), errMeter)
	require.Positive(t, s.rows()["run_patches"])
	left := must(s.Installations(ctx, org))(t)
	require.Len(t, left, 1)
	require.Empty(t, left[0].Credential)
	require.False(t, left[0].Write)
	require.Equal(t, assay.InstallationSuspended, left[0].Status)
	require.NoError(t, q.DeleteInstallation(ctx, org, i.ID))
	require.Zero(t, s.rows()["run_patches"])
	deletesPieces()
}
