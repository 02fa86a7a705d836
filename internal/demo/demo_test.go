// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"assay/internal/offline"
	"assay/internal/rules/catalog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestServicesFailAsTheySay evaluates the history and a first round of the fleet, and compares the failed rules of
// each service with the documented ones.
func TestServicesFailAsTheySay(t *testing.T) {
	now := time.Date(2026, 5, 6, 7, 30, 0, 0, time.UTC)
	var recording bytes.Buffer
	for i := range fleet {
		g, b := newGenerator(uint64(i)+1), newBatch()
		g.past(&fleet[i], now, b)
		fleet[i].emit(g, now, b)
		for _, r := range b.requests() {
			line, err := r.json()
			require.NoError(t, err)
			recording.Write(append(line, '\n'))
		}
	}
	r, err := offline.Score(t.Context(), offline.Config{
		Now: now.Add(time.Minute),
		Inputs: []offline.Input{{Name: "fleet", Open: func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(recording.Bytes())), nil
		}}},
	})
	require.NoError(t, err)

	failed := make(map[string][]string)
	for _, s := range r.Services {
		failed[s.Name] = s.FailedRuleIDs
		require.NotNil(t, s.Score, s.Name)
		if len(s.FailedRuleIDs) == 0 {
			require.Equal(t, 100, *s.Score, s.Name)
		}
	}
	require.Len(t, failed, len(Services()))
	var all []string
	for _, s := range Services() {
		require.ElementsMatch(t, s.Fails, failed[s.Name], s.Name)
		all = append(all, s.Fails...)
	}
	for r := range catalog.Rule(catalog.Scored) {
		require.Contains(t, all, r.ID(), "no service fails it")
	}
}

// TestJSON decodes spans from OTLP/JSON and from protobuf.
func TestJSON(t *testing.T) {
	g, b := newGenerator(1), newBatch()
	g.cart(time.Date(2026, 5, 6, 7, 30, 0, 0, time.UTC), b)
	r := b.requests()[0]
	require.Equal(t, "traces", r.signal)
	encoded, err := r.json()
	require.NoError(t, err)
	fromJSON := ptraceotlp.NewExportRequest()
	require.NoError(t, fromJSON.UnmarshalJSON(encoded))
	encoded, err = proto.Marshal(r.Message)
	require.NoError(t, err)
	fromProto := ptraceotlp.NewExportRequest()
	require.NoError(t, fromProto.UnmarshalProto(encoded))
	require.Equal(t, fromProto.Traces(), fromJSON.Traces())
}

// TestWriteRepositories writes git repositories whose files have their real names.
func TestWriteRepositories(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "repositories")
	require.NoError(t, WriteRepositories(t.Context(), dir))
	for _, path := range []string{"cart/main.go", "cart/internal/cart/cart.go", "search/src/server.js", "accounts/app.py", "cart/.git/HEAD"} {
		require.FileExists(t, filepath.Join(dir, path))
	}
	require.NoFileExists(t, filepath.Join(dir, "cart/main.go.demo"))
}
