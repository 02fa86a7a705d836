// SPDX-License-Identifier: Apache-2.0

package receive_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay"
	"assay/internal/receive"
	"assay/internal/wire"
)

// TestShutdownWhileSendersRun shuts the Receiver down while senders run. Acknowledged requests were ingested exactly
// once, ingested requests were acknowledged, and nothing is ingested afterwards.
func TestShutdownWhileSendersRun(t *testing.T) {
	var mu sync.Mutex
	ingested := map[string]int{}
	enough := make(chan struct{})
	s := start(t, receive.Config{Ingester: &ingester{do: func(_ context.Context, _ wire.Signal, body []byte) (string, error) {
		if rand.IntN(3) == 0 {
			return "", assay.Errorf(assay.CodeUnavailable, "not now")
		}
		mu.Lock()
		defer mu.Unlock()
		ingested[string(body)]++
		if len(ingested) == 500 {
			close(enough)
		}
		return "", nil
	}}})

	type outcome struct{ acknowledged, refused, broken int }
	acknowledged := map[string]int{}
	down := make(chan struct{})
	var all sync.WaitGroup
	outcomes := make([]outcome, 12)
	for i := range outcomes {
		sender := senders[i%2] // senders whose body is passed on unmodified
		client := newClient(t, sender.name == "grpc")
		all.Go(func() {
			after := 0
			for n := 0; after < 3; n++ {
				select {
				case <-down:
					after++
				default:
				}
				id := fmt.Sprintf("%d-%d", i, n)
				res, err := sender.send(t, s, request{
					signal: wire.Logs, authorization: goodKey, body: strings.NewReader(id), size: int64(len(id)), client: client,
				})
				switch {
				case err != nil:
					outcomes[i].broken++
				case res.outcome == receive.Accepted:
					outcomes[i].acknowledged++
					mu.Lock()
					acknowledged[id]++
					mu.Unlock()
				case res.outcome == receive.Unavailable && res.retry:
					outcomes[i].refused++
				default:
					t.Errorf("%v", res)
				}
			}
		})
	}
	<-enough
	require.NoError(t, s.Shutdown(t.Context()))
	mu.Lock()
	before := len(ingested)
	mu.Unlock()
	close(down)
	all.Wait()

	require.Len(t, ingested, before, "ingested after the shutdown")
	require.Equal(t, ingested, acknowledged)
	for i, o := range outcomes {
		require.Positive(t, o.acknowledged, "sender %d", i)
		require.Positive(t, o.refused, "sender %d", i)
		require.GreaterOrEqual(t, o.broken, 2, "sender %d", i)
	}
}

func TestShutdownBeforeServing(t *testing.T) {
	r, err := receive.New(receive.Config{Authenticate: authenticate, Ingester: &ingester{}})
	require.NoError(t, err)
	require.NoError(t, r.Shutdown(t.Context()))
	for _, transport := range []receive.Transport{receive.GRPC, receive.HTTP} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, r.Serve(transport, l))
		_, err = l.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
	}
}

func TestShutdownTwice(t *testing.T) {
	s := start(t, receive.Config{})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.NoError(t, s.Shutdown(t.Context()))
}

func TestServeUnknownTransport(t *testing.T) {
	s := start(t, receive.Config{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.ErrorContains(t, s.Serve("udp", l), "udp")
}

// TestShutdownDeadline: Shutdown returns at its deadline even if a request has not ended.
func TestShutdownDeadline(t *testing.T) {
	for _, sender := range senders {
		t.Run(sender.name, func(t *testing.T) {
			entered := make(chan struct{})
			s := start(t, receive.Config{AnswerTimeout: time.Hour, Ingester: &ingester{do: func(ctx context.Context, _ wire.Signal, _ []byte) (string, error) {
				close(entered)
				<-ctx.Done()
				return "", ctx.Err()
			}}})
			sent := make(chan error, 1)
			go func() {
				res, err := sender.send(t, s, request{signal: wire.Logs, authorization: goodKey, body: strings.NewReader("{}"), size: 2})
				if err == nil && res.outcome == receive.Accepted {
					err = errors.New("acknowledged")
				} else {
					err = nil
				}
				sent <- err
			}()
			<-entered
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, s.Shutdown(ctx), context.DeadlineExceeded)
			require.NoError(t, <-sent)
		})
	}
}

// TestShutdownWhileRequestsWait: bodies that do not arrive soon, and requests that wait for memory, do not delay a
// shutdown and are refused as retryable.
func TestShutdownWhileRequestsWait(t *testing.T) {
	for _, sender := range senders {
		t.Run(sender.name, func(t *testing.T) {
			s := start(t, receive.Config{MaxCompressed: 64 << 10, MaxUncompressed: 64 << 10, InFlightBytes: 3 * 64 << 10, ArrivalTimeout: time.Hour})
			var all sync.WaitGroup
			var bodies []io.Closer
			for range 5 { // three fit
				body := stalled(t, "{")
				bodies = append(bodies, body)
				all.Go(func() {
					res, err := sender.send(t, s, request{signal: wire.Logs, authorization: goodKey, body: body, size: 1000})
					if err == nil && res.outcome != receive.Unavailable {
						t.Errorf("%v", res)
					}
				})
			}
			require.Eventually(t, func() bool { return s.Requests() == 5 }, time.Minute, time.Millisecond)
			require.NoError(t, s.Shutdown(t.Context()))
			for _, body := range bodies {
				_ = body.Close()
			}
			all.Wait()
			for _, o := range s.outcomes() {
				require.Equal(t, receive.Unavailable, o)
			}
		})
	}
}
