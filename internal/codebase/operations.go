// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"assay"
)

// call is a request of an authenticated caller.
type call struct {
	*server
	caller
	ids    []string // of the path, unescaped
	query  map[string][]given
	body   []byte
	header http.Header // of the response
}

// operation is one of the operations that assay forwards.
type operation struct {
	method    string
	path      string // below the agent's URL; {} stands for an id
	usersOnly bool   // refuse API keys, as assay does
	do        func(context.Context, *call) (any, error)
	large     bool // reads up to megabytes
}

// operations are the eighteen operations of the API, and additional ones.
var operations = []operation{
	{"GET", "/admin/installations", true, listInstallations, true},
	{"POST", "/codebase/partner/migrate/execute", false, executeMigration, false},
	{"GET", "/codebase/findings", false, listRunFindings, true},
	{"POST", "/codebase/fix/execute", false, executeFix, true},
	{"POST", "/codebase/instrumentation/execute", false, executeInstrumentation, false},
	{"POST", "/codebase/review/execute", false, executeReview, false},
	{"GET", "/executions", false, listRuns, false},
	{"GET", "/executions/{}", false, getRun, true},
	{"GET", "/executions/{}/agent-events", false, listEvents, true},
	{"GET", "/findings", false, listFindings, true},
	{"GET", "/findings/summary", false, summarizeFindings, false},
	{"POST", "/onboarding/repos", true, completeOnboarding, false},
	{"POST", "/onboarding/session", true, createSession, false},
	{"GET", "/onboarding/status", true, getOnboarding, false},
	{"GET", "/repositories", false, listRepositories, true},
	{"GET", "/repositories/{}", false, getRepository, true},
	{"PATCH", "/repositories/{}", false, updateRepository, false},
	{"GET", "/repositories/{}/settings", true, getSettings, false},

	{"PUT", "/repositories/{}/settings", true, putSettings, false},
	{"PATCH", "/repositories/{}/findings/{}", false, updateFinding, false},
	{"POST", "/executions/{}/cancel", false, cancelRun, false},
	{"GET", "/executions/{}/patch", false, getPatch, true},
	{"POST", "/onboarding/installations", false, createInstallation, false},
	{"DELETE", "/onboarding/installations/{}", false, deleteInstallation, false},
}

// route finds the operation of a request and the ids in its path. It does not use http.ServeMux, which redirects
// unclean paths instead of answering 404.
func route(w http.ResponseWriter, r *http.Request) (*operation, []string, error) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	var allowed []string
	for i := range operations {
		op := &operations[i]
		ids, ok := match(op.path, r.URL.EscapedPath())
		switch {
		case !ok:
		case op.method == method:
			return op, ids, nil
		default:
			allowed = append(allowed, op.method)
		}
	}
	if allowed == nil {
		return nil, nil, assay.Errorf(assay.CodeNotFound, "there is nothing at this path")
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return nil, nil, assay.Errorf(assay.CodeMethodNotAllowed, "this path does not support the method")
}

// match reports whether an escaped path matches the pattern, and returns its ids.
func match(pattern, path string) (ids []string, ok bool) {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	for i, segment := range got {
		id, err := url.PathUnescape(segment)
		switch {
		case err != nil || (segment == "") != (want[i] == ""):
			return nil, false
		case want[i] == "{}":
			ids = append(ids, id)
		case want[i] != id:
			return nil, false
		}
	}
	return ids, true
}

// canonicalID returns the lower-case form of a UUID of 36 characters.
func canonicalID(s string) (string, bool) {
	id, err := uuid.Parse(s)
	if err != nil || len(s) != len(id.String()) {
		return "", false
	}
	return id.String(), true
}

// repository returns the repository with an id. Every id that is none of the organization's repositories is a 404.
func (c *call) repository(ctx context.Context, id string) (*assay.Repository, error) {
	id, ok := canonicalID(id)
	if !ok {
		return nil, errNoRepository()
	}
	r, err := c.cfg.Store.Repository(ctx, c.organization, id)
	if assay.ErrorCode(err) == assay.CodeNotFound {
		return nil, errNoRepository()
	}
	return r, err
}

func errNoRepository() error {
	return assay.Errorf(assay.CodeNotFound, "there is no repository with this id")
}
