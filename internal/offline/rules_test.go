// SPDX-License-Identifier: Apache-2.0

package offline_test

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/internal/offline"
	"assay/internal/report"
	"assay/internal/rules/rulestest"
)

// verdictCase is recorded telemetry with the expected verdicts.
type verdictCase struct {
	name string
	in   []rulestest.Request
	now  time.Time // time of the run; default an hour after rulestest.T0
	// One line per service: its name, or "namespace|name|environment|version", then -RULE for each failed rule, +RULE
	// for each passed rule, ~RULE for each rule that was not evaluated; or "absent".
	want []string
}

// requireVerdicts runs each case as `assay score` does.
func requireVerdicts(t *testing.T, cases []verdictCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := scoreOf(t, c.now, c.in...)
			require.NotEmpty(t, c.want)
			for _, line := range c.want {
				checkVerdicts(t, r, line)
			}
		})
	}
}

func scoreOf(t *testing.T, now time.Time, in ...rulestest.Request) *report.Report {
	t.Helper()
	if now.IsZero() {
		now = rulestest.T0.Add(time.Hour)
	}
	cfg := offline.Config{Now: now}
	for i, q := range in {
		cfg.Inputs = append(cfg.Inputs, offline.Input{
			Name: fmt.Sprintf("%s-%d.binpb", q.Signal, i),
			Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(q.Body)), nil },
		})
	}
	r, err := offline.Score(t.Context(), cfg)
	require.NoError(t, err)
	return r
}

// serviceOf returns the service with a name or key.
func serviceOf(r *report.Report, key string) *report.Service {
	i := slices.IndexFunc(r.Services, func(s report.Service) bool {
		return s.Name == key || strings.Join([]string{s.Namespace, s.Name, s.Environment, s.Version}, "|") == key
	})
	if i < 0 {
		return nil
	}
	return &r.Services[i]
}

func checkVerdicts(t *testing.T, r *report.Report, line string) {
	t.Helper()
	key, rest, _ := strings.Cut(line, ":")
	s := serviceOf(r, key)
	if strings.TrimSpace(rest) == "absent" {
		require.Nil(t, s, "service %q is not in the report", key)
		return
	}
	require.NotNil(t, s, "service %q is in the report: %+v", key, r.Services)
	for _, want := range strings.Fields(rest) {
		got := "~"
		if slices.Contains(s.EvaluatedRuleIDs, want[1:]) {
			got = "+"
		}
		if slices.Contains(s.FailedRuleIDs, want[1:]) {
			require.Equal(t, "+", got, "%s: a failed rule is an evaluated one", want[1:])
			got = "-"
		}
		require.Equal(t, want, got+want[1:], "service %q", key)
	}
}
