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

// reference decompresses with streaming decoders. It returns limit+1 bytes for a larger body.
func reference(encoding string, compressed []byte, limit int64) ([]byte, error) {
	var r io.Reader = bytes.NewReader(compressed)
	switch encoding {
	case "gzip":
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		r = z
	case "zstd":
		if len(compressed) == 0 {
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

// FuzzHTTP: a request is accepted if and only if the standard library's gzip or the streaming zstd decoder
// decompresses its body to at most the limit. The Ingester then receives exactly these bytes.
func FuzzHTTP(f *testing.F) {
	const maxCompressed, maxUncompressed = 1 << 11, 1 << 12 // small inputs fuzz faster
	encodings := []string{"", "gzip", "zstd"}
	body, json := sample(f, wire.Logs, 3)
	for i, compress := range []func([]byte) []byte{identity, gzipped, zstandard, zstandardSized} {
		n := uint8(min(i, 2))
		f.Add(n, false, compress(body))
		f.Add(n, true, compress(json))
		f.Add(n, false, compress(padded(maxUncompressed)))
		f.Add(n, false, compress(padded(maxUncompressed+1)))
		f.Add(n, false, append(compress(body), compress(body)...))
		f.Add(n, false, compress(body)[:20])
		f.Add(n, false, compress(nil))
	}
	ing := &ingester{}
	r, err := receive.New(receive.Config{
		Authenticate: authenticate, Ingester: ing, Logger: slog.New(slog.DiscardHandler), MaxCompressed: maxCompressed, MaxUncompressed: maxUncompressed,
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

		want, err := reference(encoding, body, maxUncompressed)
		tooLarge := len(want) > maxUncompressed || (encoding != "" && len(body) > maxCompressed)
		switch {
		case tooLarge:
			// Input that is malformed beyond the limit may have either status.
			require.Contains(t, []int{400, 413}, recorder.Code, recorder.Body)
		case errors.Is(err, zstd.ErrWindowSizeExceeded):
			require.Contains(t, []int{200, 400, 413}, recorder.Code, recorder.Body)
		case err != nil:
			// The header may announce more than the limit and more than the content.
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
