// SPDX-License-Identifier: Apache-2.0

package agentstub

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// maxDetails bounds what is said about one body.
const maxDetails = 20

// readBody reads a body, without the space around it.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, refuse(http.StatusRequestEntityTooLarge, "the body has more than "+number(maxBody)+" bytes")
		}
		return nil, refuse(http.StatusBadRequest, "the body did not arrive")
	}
	return bytes.TrimSpace(body), nil
}

// fields are the members that a body may have, and where their values go: pointers
// to pointers, which stay nil for members that are not there.
type fields map[string]any

// decode reads a JSON object. What is not one is a 400; unknown members and values
// of other types are a 422. No body counts as an empty object.
func decode(body []byte, f fields) error {
	if len(body) == 0 {
		return nil
	}
	var members map[string]json.RawMessage
	if body[0] != '{' || json.Unmarshal(body, &members) != nil {
		return invalid(map[string]string{"body": "must be a JSON object"})
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

// unprocessable returns a 422 with details, nil when there are none.
func unprocessable(details map[string]string) error {
	if len(details) == 0 {
		return nil
	}
	err := refuse(http.StatusUnprocessableEntity, "one or more fields of the body are not valid")
	err.details = details
	return err
}

// asInvalid turns a 422 into a 400, for operations that do not have the former.
func asInvalid(err error) error {
	if refused, ok := errors.AsType[*refusal](err); ok && refused.status == http.StatusUnprocessableEntity {
		return invalid(refused.details)
	}
	return err
}

// typeOf names what a target takes.
func typeOf(target any) string {
	switch target.(type) {
	case **bool:
		return "true or false"
	case **string:
		return "a string"
	default:
		return "an array of strings"
	}
}
