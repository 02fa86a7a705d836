// SPDX-License-Identifier: Apache-2.0

package agentstub

import (
	"net/http"
	"net/url"
	"strings"
)

// call is a request of a known caller, with the organization locked.
type call struct {
	cfg          *Config
	organization *organization
	ids          []string // of the path, unescaped
	query        url.Values
	body         []byte
}

// operation is one of the operations that assay forwards.
type operation struct {
	method    string
	path      string // below the backend's URL; {} stands for an id
	usersOnly bool   // refuse API keys, which assay refuses already
	do        func(*call) (response, error)
}

var operations = []operation{
	{"GET", "/admin/installations", true, listInstallations},
	{"POST", "/codebase/partner/migrate/execute", false, executeMigration},
	{"GET", "/codebase/findings", false, listRunFindings},
	{"POST", "/codebase/fix/execute", false, execute(kindFix)},
	{"POST", "/codebase/instrumentation/execute", false, execute(kindInstrumentation)},
	{"POST", "/codebase/review/execute", false, execute(kindReview)},
	{"GET", "/executions", false, listRuns},
	{"GET", "/executions/{}", false, getRun},
	{"GET", "/executions/{}/agent-events", false, listEvents},
	{"GET", "/findings", false, listFindings},
	{"GET", "/findings/summary", false, summarizeFindings},
	{"POST", "/onboarding/repos", true, completeOnboarding},
	{"POST", "/onboarding/session", true, createSession},
	{"GET", "/onboarding/status", true, getOnboarding},
	{"GET", "/repositories", false, listRepositories},
	{"GET", "/repositories/{}", false, getRepository},
	{"PATCH", "/repositories/{}", false, updateRepository},
	{"GET", "/repositories/{}/settings", true, getSettings},
}

// route finds the operation of a request and the ids in its path. It is no
// http.ServeMux, which answers unclean paths with redirects: here nothing is there.
func route(r *http.Request) (*operation, []string, error) {
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
		return nil, nil, refuse(http.StatusNotFound, "there is nothing at this path")
	}
	err := refuse(http.StatusMethodNotAllowed, "this path has another method")
	err.allow = strings.Join(allowed, ", ")
	return nil, nil, err
}

// match tells whether an escaped path has the form of the pattern, and returns its ids.
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
