// SPDX-License-Identifier: Apache-2.0

package assaytest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"assay/internal/wire"
)

// Response is an HTTP response, read to its end.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do sends an HTTP request and reads the response, whatever its status. Headers alternate
// names and values; a key, "" for none, is sent as bearer token.
func Do(ctx context.Context, c *http.Client, method, url, key string, body []byte, headers ...string) (*Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		err = fmt.Errorf("%s %s: read the response: %w", method, url, err)
	}
	return &Response{resp.StatusCode, resp.Header, text}, err
}

// Get reads a URL. A status other than 200 is an error.
func Get(ctx context.Context, c *http.Client, url, key string, headers ...string) (*Response, error) {
	r, err := Do(ctx, c, http.MethodGet, url, key, nil, headers...)
	if err == nil && r.Status != http.StatusOK {
		err = fmt.Errorf("GET %s: status %d: %.1000s", url, r.Status, r.Body)
	}
	return r, err
}

// GetJSON reads a URL into a value. A status other than 200 is an error.
func GetJSON(ctx context.Context, c *http.Client, url, key string, into any) error {
	r, err := Get(ctx, c, url, key)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(r.Body, into); err != nil {
		return fmt.Errorf("GET %s: %w", url, err)
	}
	return nil
}

// List reads all pages of a list of the REST API at rest, with 100 items a page.
func List[T any](ctx context.Context, c *http.Client, rest, key, path string) (all []T, err error) {
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	for next := path + separator + "limit=100"; next != ""; {
		var page struct {
			Data  []T               `json:"data"`
			Links map[string]string `json:"links"`
		}
		if err := GetJSON(ctx, c, rest+next, key, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Data...)
		next = strings.TrimPrefix(page.Links["next"], "/api")
	}
	return all, nil
}

// Post sends an encoded request over OTLP/HTTP, as protobuf unless a header says otherwise.
func Post(ctx context.Context, c *http.Client, url, key string, signal wire.Signal, body []byte, headers ...string) (*Response, error) {
	contentType := []string{"Content-Type", "application/x-protobuf"}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == contentType[0] {
			contentType = nil
		}
	}
	return Do(ctx, c, http.MethodPost, url+"/v1/"+signal.String(), key, body, append(contentType, headers...)...)
}

var methods = map[wire.Signal]string{
	wire.Traces:  "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
	wire.Metrics: "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
	wire.Logs:    "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}

// Dial returns a plain connection for Export. The caller closes it.
func Dial(address string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient(address, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
}

// Export sends an encoded request over OTLP/gRPC and returns the encoded response. The key
// may be "".
func Export(ctx context.Context, c *grpc.ClientConn, key string, signal wire.Signal, body []byte, options ...grpc.CallOption) (response []byte, err error) {
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
	}
	err = c.Invoke(ctx, methods[signal], body, &response, append(options, grpc.ForceCodecV2(rawCodec{}))...)
	return response, err
}

// rawCodec passes encoded messages through.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// Metrics are values by series, as the text format of Prometheus writes a series, such as
// assay_records_total{signal="logs"}.
type Metrics map[string]float64

// ParseMetrics parses the text format of Prometheus without timestamps.
func ParseMetrics(text string) (Metrics, error) {
	m := make(Metrics)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("parse metrics: %q: %w", line, err)
		}
		m[line[:at]] = v
	}
	return m, nil
}

// Sum returns the sum of a metric over its labels, and whether there is a series of it.
func (m Metrics) Sum(name string) (sum float64, found bool) {
	for series, v := range m {
		if base, _, _ := strings.Cut(series, "{"); base == name {
			sum += v
			found = true
		}
	}
	return sum, found
}
