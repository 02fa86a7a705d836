// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// fate is the treatment of a message to the server.
type fate int

const (
	passes     fate = iota
	dropped         // the connection ends before the message
	unanswered      // the connection ends before the server's answer
	swallowed       // this message and later ones are lost, and the connection stays open
)

// through returns the URL of a proxy in front of the server of a database. decide receives
// every message of a client, its type and the bytes after its length (PostgreSQL
// documentation, chapter 55.7), and the number of its connection.
func through(t *testing.T, address string, decide func(conn int64, message string) fate) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	q := u.Query()
	socket := filepath.Join(q.Get("host"), ".s.PGSQL.5432")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		require.NoError(t, listener.Close())
		wg.Wait()
	})
	wg.Go(func() {
		for conn := int64(0); ; conn++ {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { relay(ctx, client, socket, func(message string) fate { return decide(conn, message) }) })
		}
	})
	host, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	q.Set("host", host)
	q.Set("port", port)
	u.RawQuery = q.Encode()
	return u.String()
}

// relay connects a client and the server until either closes the connection, ctx ends, or
// a message must not pass.
func relay(ctx context.Context, client net.Conn, socket string, decide func(string) fate) {
	defer client.Close()
	server, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer server.Close()
	defer context.AfterFunc(ctx, func() { _ = client.Close() })()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		defer client.Close()
		_, _ = io.Copy(client, server)
	}()
	defer func() { <-answered }()
	defer server.Close()
	for started := false; ; started = true {
		message, err := readMessage(client, started)
		if err != nil {
			return
		}
		fate := passes
		if started {
			fate = decide(string(message[:1]) + string(message[5:]))
		}
		switch fate {
		case dropped:
			return
		case swallowed:
			_, _ = io.Copy(io.Discard, client)
			return
		}
		if fate == unanswered {
			_ = client.Close() // the server's answer is lost
		}
		if _, err := server.Write(message); err != nil {
			return
		}
	}
}

// readMessage reads a message of a client. Only the first one has no type.
func readMessage(r io.Reader, typed bool) ([]byte, error) {
	head := make([]byte, 4)
	if typed {
		head = make([]byte, 5)
	}
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[len(head)-4:])
	body := make([]byte, length-4)
	_, err := io.ReadFull(r, body)
	return slices.Concat(head, body), err
}
