// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"assay"
	"assay/internal/httpreply"
	"assay/internal/safetext"
)

// agentRoot is the path of the forwarded operations below the base path.
const agentRoot = "/v1/agent"

// agent registers the operations that the agent backend serves: the operations of the
// document with its tag. It forwards their query parameters unchanged; the backend checks
// them.
func (s *server) agent() {
	for _, op := range s.doc.operations {
		if !slices.Contains(op.Tags, tagAgent) {
			continue
		}
		for _, path := range s.agentPaths(op.path) {
			op := *op
			op.path = path
			s.route(&op, route{scope: assay.ScopeAgent, timeout: slowTimeout, body: maxBody}, func(ctx context.Context, x *exchange, c *call) error {
				answer, err := s.forward(ctx, c, &op)
				if err != nil {
					return err
				}
				return x.forwarded(ctx, answer)
			})
		}
	}
}

// agentPaths returns the paths of an operation: that of the document, and the alias.
func (s *server) agentPaths(path string) []string {
	if s.cfg.AgentAlias == "" {
		return []string{path}
	}
	return []string{path, "/v1/" + s.cfg.AgentAlias + strings.TrimPrefix(path, agentRoot)}
}

// Serves reports whether the API has operations at or below /v1/NAME, so that NAME cannot be Config.AgentAlias.
func Serves(name string) bool {
	root := "/v1/" + name
	return slices.ContainsFunc(sharedDocument().operations, func(op *operation) bool {
		return op.path == root || strings.HasPrefix(op.path, root+"/")
	})
}

// passedOn are the header fields of a request that are forwarded to the backend.
var passedOn = []string{"Accept", "Content-Type", "If-Modified-Since", "If-None-Match", "Traceparent", "User-Agent", "X-Request-Id"}

// forward checks a request and forwards it to the agent backend.
func (s *server) forward(ctx context.Context, c *call, op *operation) (*assay.AgentAnswer, error) {
	details := map[string]string{}
	for _, name := range op.wildcards() {
		if id := c.Request.PathValue(name); strings.Contains(id, "/") || id == "." || id == ".." {
			details[name] = "must not hold a slash or be a dot segment"
		}
	}
	if len(details) > 0 {
		return nil, assay.Invalid(details)
	}
	if c.Request.ContentLength != 0 {
		release, err := s.holdBody(c, maxBody)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	body, err := s.readJSON(ctx, c, op.method, maxBody)
	if err != nil {
		return nil, err
	}
	if s.cfg.Agent == nil {
		return nil, assay.Errorf(assay.CodeUnavailable, "the agent backend is not configured")
	}
	header := map[string][]string{}
	for _, name := range passedOn {
		if v := c.Request.Header[name]; len(v) > 0 {
			header[name] = slices.Clone(v)
		}
	}
	return s.cfg.Agent.Forward(ctx, &assay.AgentCall{
		Operation: op.ID, Caller: c.Principal, TraceID: c.TraceID,
		Method: op.method, Path: s.agentPath(c.Request), Query: c.Request.URL.RawQuery,
		Header: header, Body: body,
	})
}

// agentPath returns the part of a request's path after agentRoot, escaped as the client
// sent it. It counts segments, because a client may also escape the root's segments.
func (s *server) agentPath(r *http.Request) string {
	segments := strings.Split(r.URL.EscapedPath(), "/")
	return "/" + strings.Join(segments[1+strings.Count(s.base+agentRoot, "/"):], "/")
}

// ownLinks returns the links of a page as paths of this API. Only their queries are the backend's: its paths and hosts
// mean nothing to a client, and could lead it elsewhere. Other links are left out.
func ownLinks(path string, links []byte) map[string]string {
	var sent map[string]any
	own := map[string]string{}
	if json.Unmarshal(links, &sent) != nil {
		return own
	}
	for _, name := range []string{"self", "first", "last", "next", "prev"} {
		text, ok := sent[name].(string)
		if !ok || len(text) > maxTarget {
			continue
		}
		if u, err := url.Parse(text); err == nil {
			own[name] = path
			if query, err := url.ParseQuery(u.RawQuery); err == nil && len(query) > 0 {
				own[name] += "?" + query.Encode()
			}
		}
	}
	return own
}

// forwarded responds with the answer of the agent backend. If it returns an error, it has written nothing.
func (x *exchange) forwarded(ctx context.Context, a *assay.AgentAnswer) error {
	leave, err := x.s.cfg.CPU.Enter(ctx, assay.OrganizationOf(ctx))
	if err != nil {
		return err
	}
	leave = sync.OnceFunc(leave)
	defer leave()
	h := x.Header()
	h.Add("Vary", "Authorization")
	h.Set("Cache-Control", "private, no-cache")
	if a.ETag != "" {
		// The tag is weak, because meta and the encoding differ between responses with the same
		// data.
		h.Set("ETag", "W/"+strings.TrimPrefix(a.ETag, "W/"))
	}
	if a.LastModified != "" {
		h.Set("Last-Modified", a.LastModified)
	}
	if a.NotModified {
		leave()
		x.WriteHeader(http.StatusNotModified)
		return nil
	}
	var body bytes.Buffer
	body.Grow(len(a.Data) + len(a.Links) + 256)
	body.WriteString(`{"data":`)
	if len(a.Data) > 0 {
		body.Write(a.Data)
	} else {
		body.WriteString("null")
	}
	body.WriteString(`,"meta":`)
	meta := x.meta()
	meta.Total = a.Total
	_ = encode(&body, meta) // strings and numbers: cannot fail
	if a.Links != nil {
		body.WriteString(`,"links":`)
		_ = encode(&body, ownLinks(x.r.URL.EscapedPath(), a.Links)) // strings: cannot fail
	}
	body.WriteByte('}')
	out, _ := httpreply.Compress(x, x.r, safetext.JSON(body.Bytes()))
	leave()
	x.write(http.StatusOK, "application/json", out)
	return nil
}
