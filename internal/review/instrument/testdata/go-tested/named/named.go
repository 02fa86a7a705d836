// SPDX-License-Identifier: Apache-2.0

// Package named has a test with the name of the package that the change adds.
package named

import (
	"context"
	"net/http"
)

// Fetch returns an answer.
func Fetch(ctx context.Context, address string) (*http.Response, error) { return http.Get(address) }
