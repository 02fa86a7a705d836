// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"assay"
	"assay/internal/requestid"
)

// Path is the path of the JWKS.
const Path = "/.well-known/jwks.json"

// JWKS returns the handler that serves the public keys as a JSON Web Key Set (RFC 7517), on any path. It answers GET
// and HEAD, supports If-None-Match, and requires no credential. Other methods are refused as in the REST API.
func (s *Signer) JWKS() http.Handler {
	cacheControl := fmt.Sprintf("public, max-age=%d", int(maxAge.Seconds()))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("X-Content-Type-Options", "nosniff")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			s.refuseMethod(w, r)
			return
		}
		now := s.ring.Load()
		h.Set("Cache-Control", cacheControl)
		h.Set("ETag", now.etag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(now.jwks))
	})
}

// refusal is the error format of the REST API.
type refusal struct {
	Error struct {
		Code    assay.Code `json:"code"`
		Message string     `json:"message"`
	} `json:"error"`
	Meta struct {
		Timestamp time.Time `json:"timestamp"`
		TraceID   string    `json:"trace_id"`
	} `json:"meta"`
}

func (s *Signer) refuseMethod(w http.ResponseWriter, r *http.Request) {
	var body refusal
	body.Error.Code = assay.CodeMethodNotAllowed
	body.Error.Message = "this path does not support the method of the request"
	body.Meta.Timestamp = s.cfg.Now().UTC().Truncate(time.Microsecond)
	body.Meta.TraceID = requestid.TraceID(r.Context())
	w.Header().Set("Allow", "GET, HEAD")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusMethodNotAllowed)
	_ = json.NewEncoder(w).Encode(body) // the client may have disconnected
}
