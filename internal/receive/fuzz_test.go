// SPDX-License-Identifier: Apache-2.0

package receive_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"assay/internal/receive"
	"assay/internal/wire"
)

// reference unpacks as streaming decoders do. Of more than limit bytes it returns limit+1.
func reference(encoding string, packed []byte, limit int64) ([]byte, error) {
	var r io.Reader = bytes.NewReader(packed)
	switch encoding {
	case "gzip":
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		r = z
	case "zstd":
		if len(packed) == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(64<<20))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	}
	return io.ReadAll(io.LimitReader(r, limit+1))
}

// Whatever the body is, a request is accepted if and only if the standard library's gzip, or the streaming
// decoder of zstd, unpacks it to what fits, and then the Ingester gets just that.
func FuzzHTTP(f *testing.F) {
	const maxPacked, maxUnpacked = 1 << 11, 1 << 12 // small inputs fuzz faster
	encodings := []string{"", "gzip", "zstd"}
	body, json := sample(f, wire.Logs, 3)
	for i, pack := range []func([]byte) []byte{identity, gzipped, zstandard, zstandardSized} {
		n := uint8(min(i, 2))
		f.Add(n, false, pack(body))
		f.Add(n, true, pack(json))
		f.Add(n, false, pack(padded(maxUnpacked)))
		f.Add(n, false, pack(padded(maxUnpacked+1)))
		f.Add(n, false, append(pack(body), pack(body)...))
		f.Add(n, false, pack(body)[:20])
		f.Add(n, false, pack(nil))
	}
	ing := &ingester{}
	r, err := receive.New(receive.Config{
		Authenticate: authenticate, Ingester: ing, Logger: slog.New(slog.DiscardHandler), MaxPacked: maxPacked, MaxUnpacked: maxUnpacked,
	})
	require.NoError(f, err)
	handler := r.HTTPHandler()

	f.Fuzz(func(t *testing.T, n uint8, json bool, body []byte) {
		ing.calls = nil
		encoding := encodings[int(n)%len(encodings)]
		request := httptest.NewRequest(http.MethodPost, "/v1/logs", bytes.NewReader(body))
		request.Header.Set("Authorization", goodKey)
		request.Header.Set("Content-Encoding", encoding)
		request.Header.Set("Content-Type", "application/x-protobuf")
		if json {
			request.Header.Set("Content-Type", "application/json")
		}
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		require.Zero(t, r.BytesInFlight())

		want, err := reference(encoding, body, maxUnpacked)
		tooLarge := len(want) > maxUnpacked || (encoding != "" && len(body) > maxPacked)
		switch {
		case tooLarge:
			// Input that is malformed behind the limit may be called either.
			require.Contains(t, []int{400, 413}, recorder.Code, recorder.Body)
		case errors.Is(err, zstd.ErrWindowSizeExceeded):
			require.Contains(t, []int{200, 400, 413}, recorder.Code, recorder.Body)
		case err != nil:
			// It may promise more than the limit, and break the promise.
			require.Contains(t, []int{400, 413}, recorder.Code, recorder.Body)
		case json:
			require.Contains(t, []int{200, 400, 413}, recorder.Code, recorder.Body)
		default:
			require.Equal(t, 200, recorder.Code, recorder.Body)
			require.Len(t, ing.calls, 1)
			require.Equal(t, string(want), ing.calls[0].body)
		}
	})
}
