// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"assay"
	"assay/internal/assaytest"
	"assay/internal/engine"
	"assay/internal/offline"
	"assay/internal/receive"
	"assay/internal/report"
	"assay/internal/score"
	"assay/internal/wire"
	"assay/internal/wire/otlpjson"
)

const recordings = "../testdata/recordings"

// recorded is a time within the hour of the recordings. The server's clock must be set to it.
var recorded = time.Date(2026, time.November, 21, 1, 30, 0, 0, time.UTC)

// request is one recorded request.
type request struct {
	signal wire.Signal
	body   []byte // protobuf
}

// load returns the requests of a recording in the order in which they were sent.
func load(t *testing.T, path string) []request {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var all []request
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		signals, err := otlpjson.Detect(lines.Bytes())
		require.NoError(t, err)
		require.Len(t, signals, 1)
		signal := signals[0]
		body, err := otlpjson.Transcode(t.Context(), signal, nil, lines.Bytes(), 0)
		require.NoError(t, err)
		all = append(all, request{signal, body})
	}
	require.NoError(t, lines.Err())
	return all
}

// TestRecordingsLive sends each recording to a running server, over HTTP and gRPC, and requires the scores
// and failed rules of the offline report.
func TestRecordingsLive(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(recordings, "*.jsonl.gz"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl.gz")
		requests := load(t, file)
		want, err := offline.Score(t.Context(), offline.Config{
			Inputs: []offline.Input{{Name: name, Open: func() (io.ReadCloser, error) { return os.Open(file) }}},
			Now:    recorded,
		})
		require.NoError(t, err)
		for _, transport := range []receive.Transport{receive.HTTP, receive.GRPC} {
			t.Run(name+"/"+string(transport), func(t *testing.T) {
				s := startServer(t, transport)
				for _, r := range requests {
					s.send(t, r)
				}
				require.Equal(t, verdicts(want.Services), verdicts(s.report(t)))
				require.Equal(t, want.Totals, s.totals())
			})
		}
	}
}

// verdicts removes the examples of insights from a report: a server updates them periodically, the offline
// report has the last one.
func verdicts(services []report.Service) []report.Service {
	for _, s := range services {
		for _, i := range s.Insights {
			for name := range i.Attributes {
				if name != "observations_total" && name != "violations_total" {
					delete(i.Attributes, name)
				}
			}
		}
	}
	return services
}

// server is the data path without flags and clocks.
type server struct {
	transport receive.Transport
	address   string
	store     opened
	org       string
	engine    *engine.Engine
	conn      *grpc.ClientConn
	http      *http.Client
}

func startServer(t *testing.T, transport receive.Transport) *server {
	t.Helper()
	now := func() time.Time { return recorded }
	store := openNew(t, now)
	org := &assay.Organization{Name: "default", Tier: assay.TierFree}
	require.NoError(t, store.CreateOrganization(t.Context(), org))
	s := &server{
		transport: transport, store: store, org: org.ID, http: &http.Client{Timeout: assaytest.Limit},
		engine: engine.New(engine.Config{Store: store, Now: now, CommitInterval: time.Millisecond}),
	}
	receiver, err := receive.New(receive.Config{
		Authenticate: func(context.Context, string, string) (*assay.Principal, error) {
			return &assay.Principal{OrganizationID: org.ID, Subject: "key:test00", Scopes: assay.Scopes()}, nil
		},
		Ingester: s.engine,
	})
	require.NoError(t, err)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.address = listener.Addr().String()
	s.conn, err = assaytest.Dial(s.address)
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- receiver.Serve(transport, listener) }()
	t.Cleanup(func() {
		s.http.CloseIdleConnections()
		require.NoError(t, s.conn.Close())
		ctx, cancel := context.WithTimeout(context.Background(), assaytest.Limit)
		defer cancel()
		require.NoError(t, receiver.Shutdown(ctx))
		require.NoError(t, <-served)
		require.NoError(t, s.engine.Close(ctx))
		require.NoError(t, store.Close())
	})
	return s
}

func (s *server) send(t *testing.T, r request) {
	t.Helper()
	if s.transport == receive.GRPC {
		answer, err := assaytest.Export(t.Context(), s.conn, "", r.signal, r.body)
		require.NoError(t, err)
		require.Empty(t, answer, "everything was accepted")
		return
	}
	a, err := assaytest.Post(t.Context(), s.http, "http://"+s.address, "", r.signal, r.body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.Status, string(a.Body))
	require.Empty(t, a.Body, "everything was accepted")
}

// totals returns the totals of the engine in the form of the report.
func (s *server) totals() report.Totals {
	c := s.engine.Counters()
	return report.Totals{
		Spans: c.Spans.Load(), MetricDataPoints: c.Points.Load(), LogRecords: c.Records.Load(), Bytes: c.Bytes.Load(),
	}
}

// report closes all traces, scores the services and returns the content of the store in the form of the
// offline report.
func (s *server) report(t *testing.T) []report.Service {
	t.Helper()
	require.NoError(t, s.engine.FlushTraces(t.Context(), true))
	scorer := score.New(score.Config{Store: s.store, Now: func() time.Time { return recorded }})
	require.NoError(t, scorer.Round(t.Context()))
	services, _, err := s.store.FindServices(t.Context(), s.org, assay.Page{Limit: 100})
	require.NoError(t, err)
	var list []report.Service
	for _, v := range services {
		insights, _, err := s.store.FindInsights(t.Context(), assay.InsightFilter{
			OrganizationID: s.org, ServiceID: v.ID, Statuses: []assay.InsightStatus{assay.InsightActive}, Page: assay.Page{Limit: 100},
		})
		require.NoError(t, err)
		list = append(list, report.NewService(v, insights))
	}
	slices.SortFunc(list, report.CompareServices)
	return list
}
