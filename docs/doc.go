// SPDX-License-Identifier: Apache-2.0

// Package docs embeds the OpenAPI document, which declares the operations of the REST API.
package docs

import _ "embed"

// OpenAPI is the OpenAPI 3.1 document in YAML, for a server whose base path is /api.
//
//go:embed openapi.yaml
var OpenAPI string
