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

// fate is what becomes of a message to the server.
type fate int

const (
	passes     fate = iota
	dropped         // the connection ends before it
	unanswered      // the connection ends before the server's answer
	swallowed       // it and all that follow get lost, and the connection stays
)

// through returns the URL of a proxy before the server of a database. judge gets
// every message that a client sends, its type and what follows its length (PostgreSQL
// documentation, chapter 55.7), and the number of its connection.
func through(t *testing.T, address string, judge func(conn int64, message string) fate) string {
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
			wg.Go(func() { relay(ctx, client, socket, func(message string) fate { return judge(conn, message) }) })
		}
	})
	host, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	q.Set("host", host)
	q.Set("port", port)
	u.RawQuery = q.Encode()
	return u.String()
}

// relay joins a client and the server until either ends the connection, ctx ends, or
// a message is not to pass.
func relay(ctx context.Context, client net.Conn, socket string, judge func(string) fate) {
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
			fate = judge(string(message[:1]) + string(message[5:]))
		}
		switch fate {
		case dropped:
			return
		case swallowed:
			_, _ = io.Copy(io.Discard, client)
			return
		}
		if fate == unanswered {
			_ = client.Close() // what the server says is lost
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
