// SPDX-License-Identifier: Apache-2.0

// Package clients sends requests.
package clients

import (
	"context"
	"net/http"
	"time"
)

// Patient waits longer.
var Patient = &http.Client{Timeout: time.Minute}

// Fetch returns an answer.
func Fetch(ctx context.Context, address string) (*http.Response, error) { return http.Get(address) }

// Do returns the answer to a request.
func Do(r *http.Request) (*http.Response, error) { return http.DefaultClient.Do(r) }
