// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
)

// TestCallsEnd: a connection is closed when a request is open for longer than the limit, whatever other requests do.
func TestCallsEnd(t *testing.T) {
	headers := func(f *http2.Framer, id uint32, end bool) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x88}, EndHeaders: true, EndStream: end})
	}
	for _, c := range []struct {
		name     string
		received func(*http2.Framer) error
		sent     func(*http2.Framer) error
		closed   bool
	}{
		{"no request", func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) }, func(*http2.Framer) error { return nil }, false},
		{"a request without a response", func(f *http2.Framer) error { return headers(f, 1, true) }, func(*http2.Framer) error { return nil }, true},
		{"a response without its end", func(f *http2.Framer) error { return headers(f, 1, true) }, func(f *http2.Framer) error {
			if err := headers(f, 1, false); err != nil {
				return err
			}
			return f.WriteData(1, false, []byte("x"))
		}, true},
		{"a response", func(f *http2.Framer) error { return headers(f, 1, true) }, func(f *http2.Framer) error {
			if err := headers(f, 1, false); err != nil {
				return err
			}
			return headers(f, 1, true)
		}, false},
		{"a response that ends with data", func(f *http2.Framer) error { return headers(f, 1, true) }, func(f *http2.Framer) error {
			return f.WriteData(1, true, []byte("x"))
		}, false},
		{"a refused request", func(f *http2.Framer) error { return headers(f, 1, true) }, func(f *http2.Framer) error {
			return f.WriteRSTStream(1, http2.ErrCodeRefusedStream)
		}, false},
		{"a canceled request", func(f *http2.Framer) error {
			if err := headers(f, 1, true); err != nil {
				return err
			}
			return f.WriteRSTStream(1, http2.ErrCodeCancel)
		}, func(*http2.Framer) error { return nil }, false},
		{"trailers after the response", func(f *http2.Framer) error {
			if err := headers(f, 1, false); err != nil {
				return err
			}
			return headers(f, 1, true)
		}, func(f *http2.Framer) error { return headers(f, 1, true) }, false},
		{"one of two responses", func(f *http2.Framer) error {
			if err := headers(f, 1, true); err != nil {
				return err
			}
			return headers(f, 3, true)
		}, func(f *http2.Framer) error { return headers(f, 3, true) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := New(Config{Limit: 1}).add(&remote{addr: "client"})
				conn.Identify("a")
				server := conn.Framed(&duplex{Reader: bytes.NewReader(written(t, c.received))}, time.Minute)
				for {
					if _, err := server.Read(make([]byte, 7)); err != nil {
						break
					}
				}
				for _, b := range written(t, c.sent)[len(http2.ClientPreface):] {
					_, err := server.Write([]byte{b})
					require.NoError(t, err)
				}
				closed := func() bool {
					synctest.Wait()
					select {
					case <-conn.gone:
						return true
					default:
						return false
					}
				}
				time.Sleep(time.Minute - time.Second)
				require.False(t, closed())
				time.Sleep(time.Minute)
				require.Equal(t, c.closed, closed())
				require.NoError(t, server.Close())
			})
		})
	}
}
