// SPDX-License-Identifier: Apache-2.0

// Package rest implements the REST API: one envelope, one error shape, one declaration
// per operation.
//
// The OpenAPI 3.1 document, docs/openapi.yaml, declares the operations. The server embeds
// the document. It reads the path, the method and the parameters of each operation, with
// their bounds and defaults, the kinds of callers, whether its responses have an entity
// tag, and which operations the agent backend serves. handle and handleList register a
// handler by operationId. A route adds the properties that the document does not declare,
// such as the scope.
//
// A request passes these checks in order. The first failure is the response: the path is
// clean (400) and known (404), the method is known (405), the credential is valid (401),
// its bucket is not empty (429), the credential permits the operation (403), the request
// is not too large (413), its parameters are well formed (400), the resource exists in
// the caller's organization (404), and the dependency of the operation is configured
// (503). Unknown paths and methods need no credential, so their responses reveal nothing
// about one.
//
// The shapes of responses are Go types. Package resttest checks every response of the
// tests, and every example of the document, against the schemas of the document, which
// allow no additional fields.
package rest
