// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// listening returns a receiver that serves, and the address for HTTP.
func listening(t *testing.T) (*receiver, string) {
	t.Helper()
	r, err := newReceiver()
	require.NoError(t, err)
	var listeners []net.Listener
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		listeners = append(listeners, l)
	}
	r.serve(listeners)
	t.Cleanup(func() { r.close() })
	return r, listeners[0].Addr().String()
}

// TestTraffic: the receiver closes its port after too much traffic of requests that it rejects before admission.
func TestTraffic(t *testing.T) {
	r, address := listening(t)
	accepted := "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}" // for the rate of an organization
	request := "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 4<<10) + "\r\n\r\n"
	sent := 0
	for {
		c, err := net.Dial("tcp", address)
		if err != nil {
			break // the port is closed
		}
		_, _ = io.WriteString(c, accepted)
		go func() { _, _ = io.Copy(io.Discard, c) }()
		for {
			n, err := io.WriteString(c, request)
			if sent += n; err != nil || sent > 2*maxTraffic {
				break
			}
		}
		_ = c.Close()
		require.LessOrEqual(t, sent, 2*maxTraffic)
	}
	_, dropped := r.close()
	require.True(t, dropped)
}

// TestInvalid sends requests that are not valid.
func TestInvalid(t *testing.T) {
	r, address := listening(t)
	statuses := map[int]int{}
	for range maxInvalid + 10 {
		resp, err := http.Post("http://"+address+"/v1/traces", "application/json", strings.NewReader("{"))
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		require.NoError(t, resp.Body.Close())
		statuses[resp.StatusCode]++
	}
	http.DefaultClient.CloseIdleConnections()
	require.Equal(t, map[int]int{http.StatusBadRequest: maxInvalid, http.StatusRequestEntityTooLarge: 10}, statuses)
	_, dropped := r.close()
	require.True(t, dropped)
}
