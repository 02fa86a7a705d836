// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/rest/resttest"
)

// description validates responses of a server against the OpenAPI document that it publishes, and counts
// them.
type description struct {
	*resttest.Contract
	base string // path of the API root

	mu   sync.Mutex
	seen map[string]map[int]int // responses by operation, such as "GET /v1/services", and status
}

// describe reads the document.
func (d *daemon) describe(t *testing.T) *description {
	t.Helper()
	a, err := d.ask(t.Context(), http.MethodGet, d.REST+"/openapi.json", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.Status)
	c, err := resttest.Load(a.Body)
	require.NoError(t, err)
	root, err := url.Parse(d.REST)
	require.NoError(t, err)
	return &description{Contract: c, base: root.Path, seen: map[string]map[int]int{}}
}

// operations returns the operations, such as "GET /v1/services".
func (s *description) operations() []string {
	var all []string
	for _, op := range s.Operations() {
		all = append(all, op.Method+" "+op.Path)
	}
	return all
}

// check validates and counts a response. A response to an operation that is not in the document must be an
// error in the documented format.
func (s *description) check(method string, u *url.URL, a *answered) error {
	op := s.Find(method, strings.TrimPrefix(u.EscapedPath(), s.base))
	name, err := "", error(nil)
	switch {
	case op == nil:
		err = s.CheckSchema("Failure", a.Body)
	case method == http.MethodHead:
		name = op.Method + " " + op.Path
	default:
		name = op.Method + " " + op.Path
		err = s.CheckResponse(op, a.Status, a.Header, a.Body)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %d: %w\n%s", method, u, a.Status, err, a.Body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[name] == nil {
		s.seen[name] = map[int]int{}
	}
	s.seen[name][a.Status]++
	return nil
}

// table returns the counts by operation and status.
func (s *description) table() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	statuses := map[int]bool{}
	width := 0
	for op, by := range s.seen {
		width = max(width, len(op))
		for status := range by {
			statuses[status] = true
		}
	}
	columns := slices.Sorted(maps.Keys(statuses))
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s", width, "")
	for _, status := range columns {
		fmt.Fprintf(&b, " %5d", status)
	}
	for _, op := range slices.Sorted(maps.Keys(s.seen)) {
		name := op
		if op == "" {
			name = "(no operation)"
		}
		fmt.Fprintf(&b, "\n%-*s", width, name)
		for _, status := range columns {
			if n := s.seen[op][status]; n > 0 {
				fmt.Fprintf(&b, " %5d", n)
			} else {
				fmt.Fprintf(&b, " %5s", ".")
			}
		}
	}
	return b.String()
}
