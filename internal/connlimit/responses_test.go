// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUnreadResponses checks that large responses to clients that do not read are limited, and that those of
// one organization do not use the share of another.
func TestUnreadResponses(t *testing.T) {
	const size = maxAnswers / 4
	c := newCrowd(100)
	read := make(chan struct{})
	written := make(chan struct{})
	h := c.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if Identify(r.Context(), r.Header.Get("Organization")) != nil {
			return
		}
		w.Header().Set("Content-Length", r.Header.Get("Size"))
		w.Header().Set("Etag", `"x"`)
		w.WriteHeader(http.StatusOK)
		if r.Header.Get("Wait") != "" {
			written <- struct{}{}
			<-read
		}
		_, _ = w.Write([]byte("answer"))
	}))
	n := 0
	request := func(method, organization string, size int) *http.Request {
		n++
		r := httptest.NewRequestWithContext(t.Context(), method, "/", nil)
		r.RemoteAddr = fmt.Sprint("client ", n)
		require.True(t, c.connect(r.RemoteAddr))
		r.Header = http.Header{"Organization": {organization}, "Size": {strconv.Itoa(size)}}
		return r
	}
	get := func(method, organization string, size int) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request(method, organization, size))
		return w
	}
	var clients sync.WaitGroup
	for range 4 {
		r := request(http.MethodGet, "greedy", size)
		r.Header.Set("Wait", "yes")
		clients.Go(func() { h.ServeHTTP(httptest.NewRecorder(), r) })
		<-written
	}
	refused := get(http.MethodGet, "greedy", size)
	require.Equal(t, http.StatusServiceUnavailable, refused.Code)
	require.Zero(t, refused.Body.Len())
	require.Equal(t, "0", refused.Header().Get("Content-Length"))
	require.NotEmpty(t, refused.Header().Get("Retry-After"))
	require.Empty(t, refused.Header().Get("Etag"))
	require.Equal(t, http.StatusOK, get(http.MethodGet, "greedy", smallAnswer).Code, "small")
	require.Equal(t, http.StatusOK, get(http.MethodHead, "greedy", size).Code, "without a body")
	require.Equal(t, http.StatusOK, get(http.MethodGet, "other", size).Code, "within its share")
	close(read)
	clients.Wait()
	require.Zero(t, c.answers.InUse())
	require.Equal(t, http.StatusOK, get(http.MethodGet, "greedy", size).Code)
}
