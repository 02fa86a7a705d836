// SPDX-License-Identifier: Apache-2.0

// Package external has a test in another package with the name of the one that the change adds.
package external

import (
	"context"
	"net/http"
)

// Fetch returns an answer.
func Fetch(ctx context.Context, address string) (*http.Response, error) { return http.Get(address) }
