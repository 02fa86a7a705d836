// SPDX-License-Identifier: Apache-2.0

package lib

import "net/http"

// Serve is not for a program of this module.
func Serve() error { return http.ListenAndServe(":80", nil) }
