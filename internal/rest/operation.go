// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"assay"
)

const (
	requestTimeout = 10 * time.Second

	// slowTimeout is for operations that wait for another system, which have shorter
	// deadlines of their own. The server must allow more for writing a response.
	slowTimeout = 50 * time.Second

	// maxBody is the longest body and maxTarget the longest request target that is
	// looked at, in bytes. The server's limit for headers has to leave room for the latter.
	maxBody   = 1 << 20
	maxTarget = 10 << 10
)

// operation declares what does not follow from the types of a handler.
type operation struct {
	Method      string // default GET
	Path        string // below the base path, with wildcards as in net/http
	ID          string // operationId, such as list-services
	Summary     string
	Description string // Markdown
	Tag         string
	Scope       assay.Scope
	UsersOnly   bool          // not for API keys
	Errors      []int         // statuses besides those that every operation may answer
	Timeout     time.Duration // default 10 s
	Volatile    bool          // computed anew for every request: no entity tag, not kept for a moment
	Example     any           // the data of a response, of the handler's type
}

// call is what a handler gets besides its parameters.
type call struct {
	Principal *assay.Principal
	Request   *http.Request
	TraceID   string
}

// register declares an operation that returns one resource of type D for the
// parameters P. It panics on a declaration that makes no sense.
func register[P, D any](s *server, op operation, handle func(ctx context.Context, c *call, p *P) (D, error)) {
	b := newBinder[P](s.schemas())
	example := Single[D]{Data: op.Example.(D), Meta: exampleMeta()}
	s.route(op, b.document(), schemaOf[Single[D]](s.schemas()), example, func(ctx context.Context, c *call) (any, *page, error) {
		p, again, err := b.bind(c.Request)
		if err != nil {
			return nil, nil, err
		}
		return s.kept(ctx, op, c, again, func(ctx context.Context) (any, *page, error) {
			data, err := handle(ctx, c, p)
			return data, nil, err
		})
	})
}

// registerList is register for a page of a list: handle returns the items of the
// page and how many there are in all pages.
func registerList[P pager, D any](s *server, op operation, handle func(ctx context.Context, c *call, p *P) ([]D, int, error)) {
	b := newBinder[P](s.schemas())
	params := b.document()
	example := List[D]{
		Data: []D{op.Example.(D)}, Meta: ListMeta{Meta: exampleMeta(), Total: 1}, Links: s.exampleLinks(op.Path, params),
	}
	s.route(op, params, schemaOf[List[D]](s.schemas()), example, func(ctx context.Context, c *call) (any, *page, error) {
		p, again, err := b.bind(c.Request)
		if err != nil {
			return nil, nil, err
		}
		return s.kept(ctx, op, c, again, func(ctx context.Context) (any, *page, error) {
			items, total, err := handle(ctx, c, p)
			if err != nil {
				return nil, nil, err
			}
			if items == nil {
				items = []D{} // never null
			}
			return items, newPage(c.Request.URL.EscapedPath(), again, (*p).page(), len(items), total), nil
		})
	})
}

// route documents an operation and puts it on the mux.
func (s *server) route(op operation, params []*huma.Param, response *huma.Schema, example any, answer func(context.Context, *call) (any, *page, error)) {
	if op.Method == "" {
		op.Method = http.MethodGet
	}
	if op.Timeout == 0 {
		op.Timeout = requestTimeout
	}
	s.handle(op, s.document(op, params, response, example), func(hc huma.Context) {
		x := exchangeOf(hc.Context())
		data, pg, err := s.serve(x, op, answer)
		if err != nil {
			x.fail(err)
			return
		}
		x.succeed(data, pg, !op.Volatile)
	})
}

// handle puts an operation on the mux.
func (s *server) handle(op operation, documented *huma.Operation, serve func(huma.Context)) {
	s.methods[op.Path] = append(s.methods[op.Path], op.Method)
	s.api.Adapter().Handle(documented, serve)
}

// serve takes a request through the steps that all operations share.
func (s *server) serve(x *exchange, op operation, answer func(context.Context, *call) (any, *page, error)) (any, *page, error) {
	ctx, cancel := context.WithTimeout(x.r.Context(), op.Timeout)
	defer cancel()
	who, err := s.authorize(ctx, x, op.Scope)
	if err != nil {
		return nil, nil, err
	}
	if op.UsersOnly && !who.User {
		return nil, nil, assay.Errorf(assay.CodeForbidden, "this operation needs a user's session, not an API key")
	}
	if x.r.ContentLength > maxBody {
		return nil, nil, errTooLong()
	}
	if len(x.r.RequestURI) > maxTarget {
		return nil, nil, assay.Errorf(assay.CodeTooLarge, "the request target is longer than %d bytes", maxTarget)
	}
	ctx = assay.WithOrganization(ctx, who.OrganizationID)
	return answer(ctx, &call{Principal: who, Request: x.r, TraceID: x.traceID})
}

// authorize returns the caller of a request, who has to have the scope.
func (s *server) authorize(ctx context.Context, x *exchange, scope assay.Scope) (*assay.Principal, error) {
	// Two fields make a value that no credential has, instead of one of them
	// being chosen.
	who, err := s.cfg.Authenticate(ctx, strings.Join(x.r.Header.Values("Authorization"), ", "), x.r.RemoteAddr)
	if err != nil {
		return nil, err
	}
	if s.limiter != nil {
		if wait := s.limiter.take(bucketOf(who), s.now()); wait > 0 {
			return nil, rateLimited(wait)
		}
	}
	if !who.Allows(scope) {
		return nil, assay.Errorf(assay.CodeForbidden, "this credential does not have the scope %q", scope)
	}
	return who, nil
}

// refuse registers what answers to the other methods of the known paths. It is
// called once, after all operations.
func (s *server) refuse() {
	for path, methods := range s.methods {
		s.mux.HandleFunc(s.base+path, func(_ http.ResponseWriter, r *http.Request) {
			methodNotAllowed(exchangeOf(r.Context()), methods...)
		})
	}
}

func methodNotAllowed(x *exchange, methods ...string) {
	allowed := slices.Sorted(slices.Values(methods))
	if i, ok := slices.BinarySearch(allowed, http.MethodGet); ok {
		allowed = slices.Insert(allowed, i+1, http.MethodHead)
	}
	x.Header().Set("Allow", strings.Join(allowed, ", "))
	x.fail(assay.Errorf(assay.CodeMethodNotAllowed, "this path does not support the method %s", printableMethod(x.r.Method)))
}

// printableMethod keeps an invented method from filling a message.
func printableMethod(m string) string {
	const longest = 20
	return strconv.QuoteToASCII(m[:min(len(m), longest)])
}

// exchangeKey is the key of the exchange in the context of a request.
type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// unclean tells what is wrong with the form of a path: the standard mux would
// answer it with a redirect.
func unclean(u *url.URL) error {
	path := u.EscapedPath()
	if !strings.HasPrefix(path, "/") {
		return errUnknownPath()
	}
	empty := false
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		// The mux takes a segment that is an escaped slash for the end of the path.
		if s == "." || s == ".." || strings.EqualFold(s, "%2f") {
			return &assay.Error{
				Code: assay.CodeInvalid, Message: "the path is not valid",
				Details: map[string]string{"path": fmt.Sprintf("must not have the segment %q", s)},
			}
		}
		empty = empty || (s == "" && i < len(segments)-1)
	}
	if empty {
		return errUnknownPath()
	}
	return nil
}

func errTooLong() error {
	return assay.Errorf(assay.CodeTooLarge, "the body is longer than %d bytes", maxBody)
}

func errUnknownPath() error { return assay.Errorf(assay.CodeNotFound, "there is nothing at this path") }
