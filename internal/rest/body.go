// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"assay"
)

// inTurn works on a body of at most maxBody bytes while the organization of ctx holds a slot of the CPUs.
func (s *server) inTurn(ctx context.Context, work func() error) error {
	leave, err := s.cfg.CPU.Enter(ctx, assay.OrganizationOf(ctx))
	if err != nil {
		return err
	}
	defer leave()
	return work()
}

// holdBody reserves memory for a body of at most limit bytes until release is called. Organizations share it.
func (s *server) holdBody(c *call, limit int64) (release func(), err error) {
	organization, size := c.Principal.OrganizationID, c.Request.ContentLength
	if size < 0 || size > limit {
		size = limit
	}
	if !s.bodies.Acquire(organization, size) {
		return nil, assay.WithRetryAfter(assay.Errorf(assay.CodeUnavailable, "too many requests with a body are in flight"), time.Second)
	}
	return func() { s.bodies.Release(organization, size) }, nil
}

// readFields decodes the JSON object in the body of a request into a struct. Fields that the body does not have keep
// their values. It rejects unknown ones.
func (s *server) readFields(ctx context.Context, c *call, fields any) error {
	body, release, err := s.readObject(ctx, c)
	if err != nil {
		return err
	}
	defer release()
	return s.inTurn(ctx, func() error {
		if err := decodeFields(body, fields); err != nil {
			return err
		}
		return refuseUnknown(body, fields)
	})
}

// readObject reads the JSON object in the body of a request, which is in memory until release is called.
func (s *server) readObject(ctx context.Context, c *call) (body []byte, release func(), err error) {
	if release, err = s.holdBody(c, maxObject); err != nil {
		return nil, nil, err
	}
	if body, err = s.readJSON(ctx, c, http.MethodPatch, maxObject); err != nil { // an object
		release()
		return nil, nil, err
	}
	return body, release, nil
}

// refuseUnknown returns an error for a JSON object with a member that a struct does not have.
func refuseUnknown(body []byte, fields any) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return assay.Invalid(map[string]string{"body": "must be a JSON object"})
	}
	var known []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(fields).Elem()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		known = append(known, name)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(known, name) {
			return assay.Invalid(map[string]string{"body": fmt.Sprintf("has the unknown field %.60q; the fields are %s", name, strings.Join(known, ", "))})
		}
	}
	return nil
}

// decodeFields decodes a JSON object into a struct. It ignores unknown fields.
func decodeFields(body []byte, fields any) error {
	if err := json.Unmarshal(body, fields); err != nil {
		if mistyped, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && mistyped.Field != "" {
			name, _, _ := strings.Cut(mistyped.Field, ".") // of an array, not of its element
			return assay.Invalid(map[string]string{name: "must be " + jsonType(fields, name)})
		}
		return assay.Invalid(map[string]string{"body": "must be a JSON object"})
	}
	return nil
}

// jsonType describes the values of a field of a struct in JSON.
func jsonType(fields any, name string) string {
	kind, unit := reflect.String, ""
	for _, f := range reflect.VisibleFields(reflect.TypeOf(fields).Elem()) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != name {
			continue
		}
		if kind = f.Type.Kind(); kind == reflect.Pointer {
			kind = f.Type.Elem().Kind()
		}
		unit = f.Tag.Get("unit")
	}
	switch kind {
	case reflect.Bool:
		return "true or false"
	case reflect.Int64:
		if unit != "" {
			return "an integer number of " + unit
		}
		return "an integer"
	case reflect.Slice:
		return "an array of strings"
	default:
		return "a string"
	}
}

// readJSON reads the body of a request. A PATCH requires a JSON object. The
// body of other methods except GET may be any JSON or empty.
func (s *server) readJSON(ctx context.Context, c *call, method string, limit int64) ([]byte, error) {
	if method == http.MethodGet {
		return nil, nil
	}
	if c.Request.ContentLength > limit {
		return nil, errTooLong(limit)
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, c.Request.Body, limit))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, errTooLong(limit)
		}
		return nil, &assay.Error{Code: assay.CodeInvalid, Message: "the body did not arrive", Err: err}
	}
	object, want := method == http.MethodPatch, "must be JSON"
	if object {
		want = "must be a JSON object"
	}
	if len(body) == 0 && !object {
		return nil, nil
	}
	return body, s.inTurn(ctx, func() error {
		valid := utf8.Valid(body) && json.Valid(body) // RFC 8259, section 8.1
		if !valid || object && bytes.TrimLeft(body, " \t\r\n")[0] != '{' {
			return assay.Invalid(map[string]string{"body": want})
		}
		return nil
	})
}
