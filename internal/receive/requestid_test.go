// SPDX-License-Identifier: Apache-2.0

package receive_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"assay/internal/receive"
	"assay/internal/requestid"
	"assay/internal/wire"
)

// TestRequestID: the sender's request id, or a generated one, appears in the response, the event, the context of the
// Ingester and the log.
func TestRequestID(t *testing.T) {
	var log bytes.Buffer // the receiver logs before it responds
	var ingested string
	ing := &ingester{do: func(ctx context.Context, _ wire.Signal, _ []byte) (string, error) {
		ingested = requestid.FromContext(ctx)
		return "", errors.New("broken")
	}}
	s := start(t, receive.Config{Ingester: ing, Logger: slog.New(identified{slog.NewTextHandler(&log, nil)})})
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	overGRPC := func(authorization string, ids []string) string {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", authorization)
		for _, id := range ids {
			ctx = metadata.AppendToOutgoingContext(ctx, requestid.Header, id)
		}
		var header metadata.MD
		_, err := plogotlp.NewGRPCClient(conn).Export(ctx, plogotlp.NewExportRequest(), grpc.Header(&header))
		require.Error(t, err)
		require.Len(t, header.Get(requestid.Header), 1)
		return header.Get(requestid.Header)[0]
	}
	overHTTP := func(authorization string, ids []string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.http+"/v1/logs", strings.NewReader("{}"))
		require.NoError(t, err)
		r.Header = http.Header{"Authorization": {authorization}, "Content-Type": {"application/json"}, requestid.Header: ids}
		response, err := s.clients[false].Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Len(t, response.Header.Values(requestid.Header), 1)
		return response.Header.Get(requestid.Header)
	}
	for name, send := range map[string]func(authorization string, ids []string) string{"grpc": overGRPC, "http": overHTTP} {
		for _, c := range []struct {
			given []string
			kept  bool
		}{
			{[]string{"sender-1"}, true},
			{nil, false},
			{[]string{"a b"}, false},
			{[]string{"a", "b"}, false},
		} {
			log.Reset()
			id := send(goodKey, c.given)
			if c.kept {
				require.Equal(t, c.given[0], id, name)
			} else {
				require.Regexp(t, "^[0-9a-f]{32}$", id, name)
			}
			require.Equal(t, id, ingested, name)
			require.Contains(t, log.String(), "request_id="+id, name)
			require.Contains(t, log.String(), "receiving telemetry failed", name)
			last := s.events[len(s.events)-1]
			require.Equal(t, id, last.RequestID, name)
			require.Equal(t, "org", last.OrganizationID, name)
		}
		require.Equal(t, "refused", send("Bearer bad", []string{"refused"}), name)
		require.Empty(t, s.events[len(s.events)-1].OrganizationID, name)
	}
	response, err := s.clients[false].Get("http://" + s.http + "/nothing")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.NotEmpty(t, response.Header.Get(requestid.Header))
}

// identified adds the request id to log records, as the server's log handler does.
type identified struct{ slog.Handler }

func (h identified) Handle(ctx context.Context, r slog.Record) error {
	r.AddAttrs(slog.String("request_id", requestid.FromContext(ctx)))
	return h.Handler.Handle(ctx, r)
}
