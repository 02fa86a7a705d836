// SPDX-License-Identifier: Apache-2.0

package commit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/delta"
)

// notebook is a journal that records its calls.
type notebook struct {
	lines    []string
	prepared error
	retry    bool
}

func (n *notebook) note(what string, facts []Facts) {
	line := what
	for _, f := range facts {
		line += " " + f.(fact).name
	}
	n.lines = append(n.lines, line)
}

func (n *notebook) Prepare(_ context.Context, _ time.Time, facts []Facts) error {
	n.note("prepare", facts)
	return n.prepared
}

func (n *notebook) Merge(d *delta.Delta, facts []Facts) {
	n.note("merge", facts)
	d.Journals = append(d.Journals, delta.Journal{Name: "j"})
}

func (n *notebook) Done(_ context.Context, err error) bool {
	n.note(fmt.Sprint("done ", err), nil)
	return n.retry
}

func (n *notebook) take() []string {
	lines := n.lines
	n.lines = nil
	return lines
}

// TestJournal: the journal receives all facts of each transaction and the new ones.
func TestJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n := &memory{lasts: time.Second}, new(notebook)
		c := committer(m, func(c *Config) { c.Journal = n })
		defer c.Close()
		submit := func(number int, name string) {
			_, err := c.Submit(t.Context(), request(number), fact{name: name})
			require.NoError(t, err)
		}
		submit(1, "a")
		require.Equal(t, []string{"prepare a", "merge a", "done <nil>"}, n.take())
		go submit(2, "first") // the next submissions share a group
		synctest.Wait()
		go submit(1, "a")
		synctest.Wait()
		submit(3, "b")
		require.Equal(t, []string{"prepare first", "merge first", "done <nil>", "prepare a b", "merge b", "done <nil>"}, n.take())

		m.repeated = true
		submit(4, "c")
		require.Equal(t, []string{"prepare c", "merge c", "merge c", "done <nil>"}, n.take())
	})
}

// TestJournalRetries: a transaction is retried when the journal asks for it, a limited number of times.
func TestJournalRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := 0
		m := &memory{fail: func([]delta.Request, *delta.Delta) error {
			if failures--; failures >= 0 {
				return errors.New("conflict")
			}
			return nil
		}}
		n := &notebook{retry: true}
		c := committer(m, func(c *Config) { c.Journal = n })
		defer c.Close()
		once := []string{"prepare a", "merge a", "done conflict"}
		failures = 2
		fresh, err := c.Submit(t.Context(), request(1), fact{name: "a"})
		require.NoError(t, err)
		require.True(t, fresh)
		require.Equal(t, append(append(append([]string(nil), once...), once...), "prepare a", "merge a", "done <nil>"), n.take())
		require.EqualValues(t, 1, m.count("a"))

		failures = 100
		_, err = c.Submit(t.Context(), request(2), fact{name: "a"})
		require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
		require.Len(t, n.take(), maxTries*len(once))

		n.retry = false
		_, err = c.Submit(t.Context(), request(2), fact{name: "a"})
		require.Error(t, err)
		require.Equal(t, once, n.take())
	})
}

// TestJournalNotReady: no transaction runs if Prepare fails.
func TestJournalNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n := new(memory), &notebook{prepared: errors.New("no lease"), retry: true}
		c := committer(m, func(c *Config) { c.Journal = n })
		defer c.Close()
		_, err := c.Submit(t.Context(), request(1), fact{name: "a"})
		require.ErrorIs(t, err, n.prepared)
		require.Equal(t, assay.CodeUnavailable, assay.ErrorCode(err))
		require.Equal(t, []string{"prepare a"}, n.take())
		require.Empty(t, m.groups)
	})
}
