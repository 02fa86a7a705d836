// SPDX-License-Identifier: Apache-2.0

// Package rest is the REST API: one envelope, one error shape, one table of
// parameters per operation.
//
// An operation is declared once, with register or registerList, beside its
// handler: path, parameters, shape of the data, possible statuses, scope. The
// tags of the parameter struct are huma's; from them come both the OpenAPI 3.1
// document and the checks of a request. huma builds the document and registers
// the route on the standard mux. It does not read requests and does not write
// responses, because its own reading of parameters takes the first of a
// repeated one, stops at the first bad item of a list, and answers 422. The
// operations of the agent backend are a table of their own, because their
// parameters and answers are that system's.
//
// A request passes these steps, and the first that fails answers it: the path
// is a clean one (400) and known (404), the method is known (405), the
// credential is valid (401), its bucket is not empty (429), it may use the
// operation (403), the request is not too large (413), its parameters are well formed
// (400), the resource exists in the caller's organization (404), what
// answers is configured (503). An unknown path or method therefore tells nothing
// about a credential and needs none.
//
// The answer to a GET of the store's resources is kept in memory for a second,
// encoded, by organization, operation and parameters: whoever polls a dashboard
// then costs a copy instead of a query. It is looked for after all checks of the
// credential, meta is new in every response, and errors are not kept.
//
// The document, its rendering for people and package resttest, which checks
// responses against it, all come from the same declarations.
package rest
