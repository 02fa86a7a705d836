// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay"
)

const (
	requestTimeout = 10 * time.Second

	// slowTimeout is for operations that wait for another system with a shorter deadline of
	// its own. The server must allow more time for writing a response.
	slowTimeout = 50 * time.Second

	// maxBody limits the body and maxTarget the request target, in bytes. The server's limit
	// for headers must exceed maxTarget.
	maxBody   = 1 << 20
	maxObject = 64 << 10     // of a body that the API itself decodes
	maxBodies = 32 * maxBody // in memory at a time; see fair.Limiter
	maxTarget = 10 << 10
)

// route configures an operation beyond its declaration in the document.
type route struct {
	scope   assay.Scope
	also    assay.Scope   // a second scope that the caller needs; default none
	timeout time.Duration // default 10 s
	body    int64         // maximum size in bytes; default maxObject
	// unknown is the code for a path parameter that is not a UUID and therefore no known id;
	// default assay.CodeInvalid.
	unknown assay.Code
	// ready returns an error if the server does not have what the operation needs. It is called
	// with valid parameters. nil: it has.
	ready func() error
	// validate adds an entry to details for each parameter that contradicts another one.
	// Invalid parameters are absent.
	validate func(p params, details map[string]string)
}

// call is a request that passed all checks.
type call struct {
	Principal *assay.Principal
	Request   *http.Request
	TraceID   string
	params
}

// handle registers the operation of the document with this id, which returns one
// resource. It panics if the document does not have the operation, or declares a
// parameter that the server cannot parse.
func handle[D any](s *server, id string, rt route, read func(context.Context, *call) (D, error)) {
	s.bound(id, rt, func(ctx context.Context, x *exchange, c *call, tagged bool) error {
		data, err := read(ctx, c)
		if err != nil {
			return err
		}
		return x.succeed(ctx, data, nil, tagged)
	})
}

// handleFound is handle for a resource that find returns and show converts.
func handleFound[S, D any](s *server, id string, rt route, show func(S) D, find func(context.Context, *call) (S, error)) {
	handle(s, id, rt, func(ctx context.Context, c *call) (data D, err error) {
		found, err := find(ctx, c)
		if err != nil {
			return data, err
		}
		return show(found), nil
	})
}

// handleList is handle for a page of a list. read returns the items of the page and the
// number of items in all pages.
func handleList[D any](s *server, id string, rt route, read func(context.Context, *call) ([]D, int, error)) {
	s.bound(id, rt, func(ctx context.Context, x *exchange, c *call, tagged bool) error {
		items, total, err := read(ctx, c)
		if err != nil {
			return err
		}
		if items == nil {
			items = []D{} // never null
		}
		return x.succeed(ctx, items, newPage(c.Request.URL.EscapedPath(), c.query, c.page(), len(items), total), tagged)
	})
}

// bound registers the handler of the operation with this id, whose parameters are valid.
func (s *server) bound(id string, rt route, answer func(ctx context.Context, x *exchange, c *call, tagged bool) error) {
	op := s.doc.operation(id)
	b := newBinder(op, &rt)
	s.route(op, rt, func(ctx context.Context, x *exchange, c *call) (err error) {
		c.params, err = b.bind(c.Request)
		if err == nil && rt.ready != nil {
			err = rt.ready()
		}
		if err != nil {
			return err
		}
		return answer(ctx, x, c, op.tagged())
	})
}

// route registers the handler of an operation behind the checks that all operations
// share.
func (s *server) route(op *operation, rt route, answer func(context.Context, *exchange, *call) error) {
	rt.timeout = cmp.Or(rt.timeout, requestTimeout)
	s.methods[op.path] = append(s.methods[op.path], op.method)
	s.mux.HandleFunc(op.method+" "+s.base+op.path, func(_ http.ResponseWriter, r *http.Request) {
		x := exchangeOf(r.Context())
		if op.Responses["201"] != nil {
			x.success = http.StatusCreated
		}
		ctx, cancel := context.WithTimeout(r.Context(), rt.timeout)
		defer cancel()
		principal, err := s.admit(ctx, x, op, rt)
		if err == nil {
			ctx = assay.WithOrganization(ctx, principal.OrganizationID)
			err = answer(ctx, x, &call{Principal: principal, Request: r, TraceID: x.traceID})
		}
		if err != nil {
			x.fail(err)
		}
	})
}

// admit runs the checks that all operations share, and returns the caller.
func (s *server) admit(ctx context.Context, x *exchange, op *operation, rt route) (*assay.Principal, error) {
	principal, err := s.authorize(ctx, x, rt.scope)
	switch {
	case err != nil:
		return nil, err
	case rt.also != "" && !principal.Allows(rt.also):
		return nil, errScope(rt.also)
	case op.usersOnly() && !principal.User:
		return nil, assay.Errorf(assay.CodeForbidden, "this operation needs a user's session, not an API key")
	case op.Administrators && !principal.User && !principal.Allows(assay.ScopeAdmin):
		return nil, assay.Errorf(assay.CodeForbidden, "this operation needs a user's session, or an API key with the scope %q", assay.ScopeAdmin)
	case x.r.ContentLength > cmp.Or(rt.body, maxObject):
		return nil, errTooLong(cmp.Or(rt.body, maxObject))
	case len(x.r.RequestURI) > maxTarget:
		return nil, assay.Errorf(assay.CodeTooLarge, "the request target is longer than %d bytes", maxTarget)
	}
	return principal, nil
}

// authorize returns the caller of a request. The caller must have the scope.
func (s *server) authorize(ctx context.Context, x *exchange, scope assay.Scope) (*assay.Principal, error) {
	principal, err := s.authenticate(ctx, x)
	if err != nil {
		return nil, err
	}
	if !principal.Allows(scope) {
		return nil, errScope(scope)
	}
	return principal, nil
}

// authenticate returns the caller of a request, within the rate limit.
func (s *server) authenticate(ctx context.Context, x *exchange) (*assay.Principal, error) {
	principal, err := s.cfg.Authenticate(ctx, Credential(x.r), x.r.RemoteAddr)
	if err != nil {
		return nil, err
	}
	if s.limiter != nil {
		if wait := s.limiter.Take(bucketOf(principal), s.now()); wait > 0 {
			return nil, assay.WithRetryAfter(assay.Errorf(assay.CodeRateLimited, "too many requests with this credential"), wait)
		}
	}
	return principal, nil
}

// Credential returns the Authorization header of a request. It joins repeated fields to a value that matches no
// credential, instead of choosing one of them.
func Credential(r *http.Request) string { return strings.Join(r.Header.Values("Authorization"), ", ") }

func errScope(scope assay.Scope) error {
	return assay.Errorf(assay.CodeForbidden, "this credential does not have the scope %q", scope)
}

// bucketOf returns the key of a caller's rate limit. The key differs between a user and
// an API key with the same subject.
func bucketOf(principal *assay.Principal) string {
	kind := "key"
	if principal.User {
		kind = "user"
	}
	return principal.OrganizationID + " " + kind + " " + principal.Subject
}

// refuse registers the handlers for other methods of the known paths. Call it once, after
// all operations are registered.
func (s *server) refuse() {
	for path, methods := range s.methods {
		if s.shadows(path) {
			continue
		}
		s.mux.HandleFunc(s.base+path, func(_ http.ResponseWriter, r *http.Request) {
			methodNotAllowed(exchangeOf(r.Context()), methods...)
		})
	}
}

// shadows reports whether a path, such as /v1/services/search, is a value of another one with the same methods, such as
// /v1/services/{id}. The handler of that one also refuses methods for it, and the mux accepts no second one.
func (s *server) shadows(path string) bool {
	own := strings.Split(path, "/")
	for other, methods := range s.methods {
		segments := strings.Split(other, "/")
		if other == path || len(segments) != len(own) || !slices.Equal(methods, s.methods[path]) {
			continue
		}
		matches := true
		for i, segment := range segments {
			matches = matches && (segment == own[i] || strings.HasPrefix(segment, "{") && !strings.HasPrefix(own[i], "{"))
		}
		if matches {
			return true
		}
	}
	return false
}

func methodNotAllowed(x *exchange, methods ...string) {
	allowed := slices.Sorted(slices.Values(methods))
	if i, ok := slices.BinarySearch(allowed, http.MethodGet); ok {
		allowed = slices.Insert(allowed, i+1, http.MethodHead)
	}
	x.Header().Set("Allow", strings.Join(allowed, ", "))
	x.fail(assay.Errorf(assay.CodeMethodNotAllowed, "this path does not support the method %s", printableMethod(x.r.Method)))
}

// printableMethod limits an unknown method for an error message.
func printableMethod(m string) string {
	const longest = 20
	return strconv.QuoteToASCII(m[:min(len(m), longest)])
}

// exchangeKey is the key of the exchange in the context of a request.
type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// unclean describes a malformed path. The standard mux would answer it with a redirect.
func unclean(u *url.URL) error {
	path := u.EscapedPath()
	if !strings.HasPrefix(path, "/") {
		return errUnknownPath()
	}
	empty := false
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		// The mux treats a segment that is an escaped slash as the end of the path.
		if s == "." || s == ".." || strings.EqualFold(s, "%2f") {
			return assay.Invalid(map[string]string{"path": fmt.Sprintf("must not have the segment %q", s)})
		}
		empty = empty || (s == "" && i < len(segments)-1)
	}
	if empty {
		return errUnknownPath()
	}
	return nil
}

func errTooLong(limit int64) error {
	return assay.Errorf(assay.CodeTooLarge, "the body is longer than %d bytes", limit)
}

func errUnknownPath() error { return assay.Errorf(assay.CodeNotFound, "there is nothing at this path") }
