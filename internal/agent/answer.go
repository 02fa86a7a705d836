// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"assay"
	"assay/internal/fair"
)

const (
	maxBody = 32 << 20

	// smallBody is the maximum size of a body that does not count against maxMemory.
	smallBody = 64 << 10
	// maxMemory limits the total size of larger bodies in memory. The organizations share it.
	maxMemory = 256 << 20
)

// read converts a response to the result of the call.
func (g *Gateway) read(ctx context.Context, c *assay.AgentCall, resp *http.Response, b *bodyReader) result {
	switch s := resp.StatusCode; {
	case s >= 200 && s <= 299:
		return g.success(ctx, c.Caller, resp, b)
	case s == http.StatusNotModified && conditional(c):
		return result{outcome: OutcomeOK, answer: validators(resp, &assay.AgentAnswer{NotModified: true})}
	case refusals[s].code != "":
		body, err := b.read(resp, maxRefusal)
		if err != nil && !errors.Is(err, errLong) {
			return unread(ctx, err)
		}
		otherwise := noRetry
		if s == http.StatusTooManyRequests {
			otherwise = defaultRetry
		}
		return result{outcome: OutcomeRefused, err: refusal(s, body, retryAfter(resp.Header, g.cfg.Now(), otherwise))}
	case s == http.StatusServiceUnavailable:
		return result{
			outcome: OutcomeBackendError,
			err:     unavailable("the agent backend is not available", nil, retryAfter(resp.Header, g.cfg.Now(), defaultRetry)),
		}
	case s == http.StatusUnauthorized:
		return unusable("the agent backend does not accept the token of this server")
	default:
		return unusable(fmt.Sprintf("the agent backend answered with the status %d", s))
	}
}

func conditional(c *assay.AgentCall) bool {
	return len(c.Header["If-None-Match"])+len(c.Header["If-Modified-Since"]) > 0
}

// unusable returns the result of a response that cannot be passed on.
func unusable(message string) result {
	return result{outcome: OutcomeBackendError, err: upstream(message, nil)}
}

// unread returns the result of a response whose body could not be read.
func unread(ctx context.Context, err error) result {
	if errors.Is(err, errMemory) {
		return tooMany()
	}
	return brokenResult(ctx, err, true)
}

// success returns the result of a response with a 2xx status.
func (g *Gateway) success(ctx context.Context, caller *assay.Principal, resp *http.Response, b *bodyReader) result {
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return unusable("the agent backend answered in an encoding that was not asked for")
	}
	body, err := b.read(resp, g.maxBody)
	switch {
	case errors.Is(err, errLong):
		return unusable(fmt.Sprintf("the agent backend answered with more than %d bytes", g.maxBody))
	case err != nil:
		return unread(ctx, err)
	case len(body) == 0:
		return result{outcome: OutcomeOK, answer: validators(resp, &assay.AgentAnswer{})}
	}
	leave, err := g.cfg.CPU.Enter(ctx, caller.OrganizationID)
	if err != nil {
		if r := brokenResult(ctx, err, true); !r.failed {
			return r
		}
		return tooMany() // not a failure of the backend
	}
	defer leave()
	if !isJSON(body) {
		return unusable("the agent backend answered with something that is not JSON")
	}
	return result{outcome: OutcomeOK, answer: validators(resp, unwrap(body))}
}

// unwrap returns the JSON in the envelope of the API, if there is one: an object with data and at least one of meta
// and links.
func unwrap(body []byte) *assay.AgentAnswer {
	var data, meta, links []byte
	members(body, func(name string, value []byte) {
		switch name {
		case "data":
			data = value
		case "meta":
			meta = value
		case "links":
			links = value
		}
	})
	if data == nil || (meta == nil && links == nil) {
		return &assay.AgentAnswer{Data: body}
	}
	a := &assay.AgentAnswer{Data: data}
	members(meta, func(name string, value []byte) {
		if name != "total" {
			return
		}
		a.Total = nil
		if n, ok := nonNegative(value); ok {
			a.Total = &n
		}
	})
	if len(links) > 0 && links[0] == '{' {
		a.Links = links
	}
	return a
}

// validators copies the well-formed validators of a response.
func validators(resp *http.Response, a *assay.AgentAnswer) *assay.AgentAnswer {
	if tag := resp.Header.Get("Etag"); isEntityTag(tag) {
		a.ETag = tag
	}
	if at := resp.Header.Get("Last-Modified"); at != "" {
		if _, err := http.ParseTime(at); err == nil {
			a.LastModified = at
		}
	}
	return a
}

// isEntityTag reports whether s is an entity tag of RFC 9110, section 8.8.3, in ASCII and with at most 1 KiB.
func isEntityTag(s string) bool {
	const longest = 1 << 10
	opaque, ok := strings.CutPrefix(strings.TrimPrefix(s, "W/"), `"`)
	if !ok || !strings.HasSuffix(opaque, `"`) || len(s) > longest {
		return false
	}
	return !slices.ContainsFunc([]byte(opaque[:len(opaque)-1]), func(c byte) bool { return c <= ' ' || c == '"' || c >= 0x7f })
}

var (
	errLong   = errors.New("the body is too long")
	errMemory = errors.New("too much memory in bodies")
)

// bodyReader reads the body of one response.
type bodyReader struct {
	memory       *fair.Limiter
	organization string
	taken        int64
}

// release releases the memory.
func (b *bodyReader) release() { b.memory.Release(b.organization, b.taken) }

// read returns the body of a response, or errLong if it exceeds limit bytes.
func (b *bodyReader) read(resp *http.Response, limit int) ([]byte, error) {
	// One byte more than expected, so that the end is detected without growing the buffer.
	size := int64(4 << 10)
	if resp.ContentLength >= 0 {
		size = min(resp.ContentLength, smallBody-1) + 1
	}
	body := make([]byte, 0, size)
	for {
		n, err := resp.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case len(body) > limit:
			return nil, errLong
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, err
		}
		if len(body) < cap(body) {
			continue
		}
		grown := min(2*cap(body), limit+1)
		if grown > smallBody {
			if !b.memory.Acquire(b.organization, int64(grown)-b.taken) {
				return nil, errMemory
			}
			b.taken = int64(grown)
		}
		larger := make([]byte, len(body), grown)
		copy(larger, body)
		body = larger
	}
}
