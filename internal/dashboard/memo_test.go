// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMemo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads, takes := 0, time.Second
		var fails error
		m := newMemo(time.Now, func(ctx context.Context, id string) (string, error) {
			reads++
			n := reads
			select {
			case <-time.After(takes):
			case <-ctx.Done():
				return "", ctx.Err()
			}
			return fmt.Sprint(id, n), fails
		})
		get := func() (string, time.Duration) {
			began := time.Now()
			v, err := m.get(t.Context(), "a")
			require.NoError(t, err)
			return v, time.Since(began)
		}
		v, waited := get()
		require.Equal(t, "a1", v)
		require.Equal(t, takes, waited, "there is nothing to show before")
		time.Sleep(memoFresh - takes - 1)
		v, _ = get()
		require.Equal(t, "a1", v)
		require.Equal(t, 1, reads)

		time.Sleep(time.Nanosecond)
		for range 3 {
			v, waited = get()
			require.Equal(t, "a1", v, "shown while it is read anew")
			require.Zero(t, waited)
		}
		time.Sleep(takes)
		synctest.Wait()
		v, _ = get()
		require.Equal(t, "a2", v)
		require.Equal(t, 2, reads)

		fails = errors.New("unavailable")
		time.Sleep(memoFresh)
		v, _ = get()
		require.Equal(t, "a2", v)
		time.Sleep(memoStale)
		_, err := m.get(t.Context(), "a")
		require.ErrorIs(t, err, fails, "nothing is shown for long that cannot be read")

		takes = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = m.get(ctx, "b")
		require.ErrorIs(t, err, context.DeadlineExceeded, "reading ends by itself")
		go func() { _, _ = m.get(t.Context(), "c") }()
		synctest.Wait()
		m.Close()
		_, err = m.get(t.Context(), "d")
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestMemoIsBounded(t *testing.T) {
	m := newMemo(time.Now, func(_ context.Context, id string) (string, error) { return id, nil })
	defer m.Close()
	for n := range 3 * maxMemo {
		v, err := m.get(t.Context(), fmt.Sprint(n))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(n), v)
	}
	require.LessOrEqual(t, len(m.entries), maxMemo)
}
