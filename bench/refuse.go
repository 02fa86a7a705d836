// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

const refusals = 3000 // of each kind

// runRefuse times the refusal of credentials. What it shows is that the time tells
// nobody which key ids exist: an unknown one does not take less than a wrong secret.
func runRefuse(ctx context.Context, s *settings, emit func(*table) error) (err error) {
	dir, err := os.MkdirTemp("", "assay-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	srv, err := startAssay(ctx, s.assay, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()

	id := srv.key[len("assay_sk_"):][:6]
	kinds := []struct {
		name string
		key  func() string
	}{
		{"wrong secret of a key that exists", func() string { return "assay_sk_" + id + "_" + randomHex(16) }},
		{"key id that does not exist", func() string { return "assay_sk_" + randomHex(3) + "_" + randomHex(16) }},
	}
	times := make([][]float64, len(kinds))
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	url := "http://" + srv.rest + "/api/v1/organization"
	for i := range 2 * (refusals + readWarmUp) {
		kind := i % 2 // by turns, so that both see the same machine
		took, status, err := timeStatus(ctx, client, url, kinds[kind].key())
		if err != nil {
			return srv.explain(err)
		}
		if status != http.StatusUnauthorized {
			return fmt.Errorf("%s: status %d", kinds[kind].name, status)
		}
		if i >= 2*readWarmUp {
			times[kind] = append(times[kind], took)
		}
	}
	t := &table{
		Title:   fmt.Sprintf("401 over loopback, one client, %s of each kind by turns", thousands(refusals)),
		Columns: []string{"p10 ms", "p50 ms", "p90 ms"},
	}
	for i, k := range kinds {
		t.Rows = append(t.Rows, row{k.name, []value{
			value(quantile(times[i], 0.1)), value(quantile(times[i], 0.5)), value(quantile(times[i], 0.9)),
		}})
	}
	t.Targets = []target{atLeast("p50 of an unknown id, times that of a wrong secret,", 0.97, quantile(times[1], 0.5)/quantile(times[0], 0.5))}
	return emit(t)
}

// timeStatus does a request and returns its time in milliseconds and its status.
func timeStatus(ctx context.Context, client *http.Client, url, key string) (float64, int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, 0, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	took := time.Since(began)
	return float64(took) / float64(time.Millisecond), resp.StatusCode, errors.Join(err, resp.Body.Close())
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b)
	return strings.ToLower(hex.EncodeToString(b))
}
