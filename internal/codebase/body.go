// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"assay"
)

// maxDetails limits the details about one body.
const maxDetails = 20

// readBody reads a body of at most limit bytes.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, assay.Errorf(assay.CodeTooLarge, "the body has more than %d bytes", limit)
		}
		if refused, ok := errors.AsType[*assay.Error](err); ok {
			return nil, refused
		}
		return nil, assay.Errorf(assay.CodeInvalid, "the body did not arrive")
	}
	return body, nil
}

// fields maps the allowed members of a body to their targets: pointers to values, which remain zero for absent members, or
// to pointers, which remain nil.
type fields map[string]any

// decode is decode of the body of the call, while its organization holds a slot of the CPUs.
func (c *call) decode(ctx context.Context, f fields) error {
	leave, err := c.cfg.CPU.Enter(ctx, c.organization)
	if err != nil {
		return err
	}
	defer leave()
	return decode(c.body, f)
}

// decode decodes a JSON object. Other input is a 400. Unknown members and values of other types are a 422. An empty
// body counts as an empty object.
func decode(body []byte, f fields) error {
	if len(body) == 0 {
		return nil
	}
	var members map[string]json.RawMessage
	if body[0] != '{' || json.Unmarshal(body, &members) != nil {
		return assay.Invalid(map[string]string{"body": "must be a JSON object"})
	}
	details := map[string]string{}
	for name, value := range members {
		if len(details) == maxDetails {
			break
		}
		target, ok := f[name]
		switch {
		case !ok && len(name) > 64:
			details["body"] = "has a field that is not known"
		case !ok:
			details[name] = "is not a field of this operation"
		case string(value) == "null" || json.Unmarshal(value, target) != nil:
			details[name] = "must be " + typeOf(target)
		}
	}
	return unprocessable(details)
}

// unprocessable returns a 422 with details, or nil if there are none.
func unprocessable(details map[string]string) error {
	if len(details) == 0 {
		return nil
	}
	return &assay.Error{Code: assay.CodeUnprocessable, Message: assay.DescribeDetails(details), Details: details}
}

// asInvalid converts a 422 to a 400, for operations without a 422.
func asInvalid(err error) error {
	if refused, ok := errors.AsType[*assay.Error](err); ok && refused.Code == assay.CodeUnprocessable {
		return assay.Invalid(refused.Details)
	}
	return err
}

// typeOf returns the JSON type of a target.
func typeOf(target any) string {
	switch target.(type) {
	case *bool, **bool:
		return "true or false"
	case *string, **string:
		return "a string"
	case **int:
		return "an integer"
	default:
		return "an array of strings"
	}
}
