// SPDX-License-Identifier: Apache-2.0

// Package resttest checks the API's responses and examples against its OpenAPI
// document, with a JSON Schema validator that the API itself does not use.
package resttest
