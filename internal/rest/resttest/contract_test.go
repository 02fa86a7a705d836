// SPDX-License-Identifier: Apache-2.0

package resttest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const document = `{
  "openapi": "3.1.0",
  "paths": {
    "/things/{id}": {
      "get": {
        "operationId": "get-thing",
        "parameters": [
          {"name": "id", "in": "path", "required": true, "schema": {"type": "string", "format": "uuid", "examples": ["6f0a5b0e-6b5e-5f0c-9d8e-2f1d3c4b5a69"]}},
          {"$ref": "#/components/parameters/Tag"}
        ],
        "responses": {
          "200": {
            "description": "ok",
            "headers": {"Retry-After": {"schema": {"type": "integer"}}, "ETag": {"schema": {"type": "string", "pattern": "^W/"}}},
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}, "example": {"n": 1}}}
          },
          "304": {"description": "same"},
          "404": {"$ref": "#/components/responses/Failure"}
        },
        "security": [{"key": []}, {"user": []}]
      },
      "patch": {"operationId": "update-thing", "responses": {"default": {"$ref": "#/components/responses/Failure"}}}
    },
    "/things": {"get": {"operationId": "list-things", "responses": {"200": {"description": "ok", "content": {"application/json": {"schema": true}}}}}}
  },
  "components": {
    "parameters": {"Tag": {"name": "If-None-Match", "in": "header", "schema": {"type": "string", "examples": ["a"]}}},
    "responses": {"Failure": {"description": "no", "content": {"application/json": {
      "schema": {"$ref": "#/components/schemas/Failure"}, "examples": {"A": {"value": {"code": "A"}}}
    }}}},
    "schemas": {
      "Thing": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "minimum": 1, "examples": [7]}}, "additionalProperties": false},
      "Failure": {"type": "object", "required": ["code"], "properties": {"code": {"enum": ["A", "B"]}}}
    }
  }
}`

func load(t *testing.T) *Contract {
	t.Helper()
	c, err := Load([]byte(document))
	require.NoError(t, err)
	return c
}

func TestOperations(t *testing.T) {
	c := load(t)
	var ids []string
	for _, o := range c.Operations() {
		ids = append(ids, o.ID)
	}
	require.Equal(t, []string{"list-things", "get-thing", "update-thing"}, ids)
	got := c.Find("HEAD", "/things/x%2Fy")
	require.Equal(t, "get-thing", got.ID)
	require.Equal(t, []string{"200", "304", "404"}, got.Statuses)
	require.Equal(t, []string{"key", "user"}, got.Security)
	require.Equal(t, []Parameter{
		{Name: "id", In: "path", Required: true, Example: "6f0a5b0e-6b5e-5f0c-9d8e-2f1d3c4b5a69"},
		{Name: "If-None-Match", In: "header", Example: "a"},
	}, got.Parameters)
	for _, path := range []string{"/things/", "/things/x/y", "/thing", "things", ""} {
		require.Nil(t, c.Find("GET", path), path)
	}
	require.Nil(t, c.Find("POST", "/things"))
}

func TestCheckResponse(t *testing.T) {
	c := load(t)
	const json, ok = "application/json", ""
	for _, test := range []struct {
		method string
		status int
		header []string
		body   string
		says   string // of the error, "" for none
	}{
		{"GET", 200, []string{"Content-Type", json}, `{"n": 1}`, ok},
		{"GET", 200, []string{"Content-Type", json + "; charset=utf-8", "ETag", `W/"a"`, "Retry-After", "5"}, `{"n": 12345678901234567890}`, ok},
		{"GET", 304, nil, "", ok},
		{"GET", 404, []string{"Content-Type", json}, `{"code": "A"}`, ok},
		{"PATCH", 418, []string{"Content-Type", json}, `{"code": "B"}`, ok},
		{"GET", 200, []string{"Content-Type", json}, `{"n": 0}`, "minimum"},
		{"GET", 200, []string{"Content-Type", json}, `{"n": 1, "m": 1}`, "additional"},
		{"GET", 200, []string{"Content-Type", json}, `{}`, "missing"},
		{"GET", 200, []string{"Content-Type", json}, `{"n": 1} x`, "body"},
		{"GET", 200, []string{"Content-Type", json}, ``, "body"},
		{"GET", 200, []string{"Content-Type", "text/plain"}, `{"n": 1}`, "content type"},
		{"GET", 200, nil, `{"n": 1}`, "content type"},
		{"GET", 200, []string{"Content-Type", json, "ETag", `"a"`}, `{"n": 1}`, "header ETag"},
		{"GET", 200, []string{"Content-Type", json, "Retry-After", "soon"}, `{"n": 1}`, "header Retry-After"},
		{"GET", 304, nil, "x", "not documented"},
		{"GET", 418, []string{"Content-Type", json}, `{"code": "A"}`, "not documented"},
		{"GET", 404, []string{"Content-Type", json}, `{"code": "C"}`, "value must be one of"},
		{"PATCH", 418, []string{"Content-Type", json}, `{}`, "missing"},
	} {
		header := http.Header{}
		for i := 0; i < len(test.header); i += 2 {
			header.Set(test.header[i], test.header[i+1])
		}
		err := c.CheckResponse(c.Find(test.method, "/things/x"), test.status, header, []byte(test.body))
		if test.says == ok {
			require.NoError(t, err, "%v", test)
		} else {
			require.ErrorContains(t, err, test.says, "%v", test)
		}
	}
	require.NoError(t, c.CheckSchema("Failure", []byte(`{"code": "A"}`)))
	require.Error(t, c.CheckSchema("Failure", []byte(`{"code": 1}`)))
	require.Error(t, c.CheckSchema("Nothing", []byte(`{}`)))
}

func TestCheckExamples(t *testing.T) {
	c := load(t)
	n, err := c.CheckExamples()
	require.NoError(t, err)
	require.Equal(t, 5, n)
	for _, wrong := range []struct{ old, with string }{
		{`"example": {"n": 1}`, `"example": {"n": "x"}`},
		{`"examples": [7]`, `"examples": [7, 0]`},
		{`"examples": ["a"]`, `"examples": [1]`},
		{`"examples": ["6f0a5b0e-6b5e-5f0c-9d8e-2f1d3c4b5a69"]`, `"examples": ["6f0a"]`},
		{`{"value": {"code": "A"}}`, `{"value": {"code": "Z"}}`},
	} {
		c, err := Load([]byte(replace(t, wrong.old, wrong.with)))
		require.NoError(t, err)
		_, err = c.CheckExamples()
		require.Error(t, err, wrong.with)
	}
}

func replace(t *testing.T, old, with string) string {
	t.Helper()
	require.Equal(t, 1, strings.Count(document, old), old)
	return strings.Replace(document, old, with, 1)
}

func TestLoadFails(t *testing.T) {
	for _, d := range []string{"", "[]", "{", "7"} {
		_, err := Load([]byte(d))
		require.Error(t, err, d)
	}
}
