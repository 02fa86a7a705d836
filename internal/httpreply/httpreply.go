// SPDX-License-Identifier: Apache-2.0

package httpreply

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// Matches reports whether the If-None-Match fields of a request name tag, by the weak comparison of RFC 9110. It ignores
// the rest of a list after a syntax error.
func Matches(r *http.Request, tag string) bool {
	tag = strings.TrimPrefix(tag, "W/")
	rest := strings.Join(r.Header.Values("If-None-Match"), ",")
	for {
		rest = strings.TrimLeft(rest, " \t,")
		if strings.HasPrefix(rest, "*") {
			return true
		}
		rest = strings.TrimPrefix(rest, "W/")
		if !strings.HasPrefix(rest, `"`) {
			return false
		}
		end := strings.IndexByte(rest[1:], '"')
		if end < 0 {
			return false
		}
		if rest[:end+2] == tag {
			return true
		}
		rest = rest[end+2:]
	}
}

// AcceptsGzip reports whether Accept-Encoding names gzip with a weight other than 0.
func AcceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, parameter, _ := strings.Cut(coding, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		_, weight, weighed := strings.Cut(parameter, "=")
		q, err := strconv.ParseFloat(strings.TrimSpace(weight), 64)
		return !weighed || err == nil && q > 0
	}
	return false
}

var writers = sync.Pool{New: func() any {
	zw, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level is valid
	return zw
}}

// Gzip compresses a body, for speed.
func Gzip(body []byte) []byte {
	var b bytes.Buffer
	zw := writers.Get().(*gzip.Writer)
	zw.Reset(&b)
	_, _ = zw.Write(body) // into memory: cannot fail
	_ = zw.Close()
	zw.Reset(io.Discard)
	writers.Put(zw)
	return b.Bytes()
}

const compressOver = 1 << 10 // bytes; smaller bodies are not compressed

// Compress returns the body to send, and whether it is a compressed copy.
func Compress(w http.ResponseWriter, r *http.Request, body []byte) (out []byte, compressed bool) {
	if len(body) <= compressOver || !AcceptsGzip(r) {
		return body, false
	}
	w.Header().Set("Content-Encoding", "gzip")
	return Gzip(body), true
}

// Write writes a response with a body.
func Write(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // fails if the client has disconnected
	}
}
