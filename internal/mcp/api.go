// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"assay"
	"assay/internal/inprocess"
)

// API is a REST API of assay.
type API struct {
	// URL is the base URL of the API, such as https://assay.example.com/api.
	URL string
	// Client sends the requests. Its transport may be a Handler.
	Client *http.Client
	// Authorization is the Authorization header of the requests; "" for the header of the caller.
	Authorization string
}

// maxAnswer is the maximum size of an answer in bytes. It is small because agents read all of an answer.
const maxAnswer = 512 << 10

// get sends a GET request and returns the data of the answer, with the total if it is a list.
func (a *API) get(ctx context.Context, path string, query map[string][]string, caller http.Header) (json.RawMessage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(a.URL, "/")+path, nil)
	if err != nil {
		return nil, err
	}
	values := req.URL.Query()
	for name, list := range query {
		if len(list) > 0 && list[0] != "" {
			values[name] = list
		}
	}
	req.URL.RawQuery = values.Encode()
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "assay-mcp")
	req.Header.Set("Authorization", a.Authorization)
	if a.Authorization == "" {
		req.Header["Authorization"] = caller["Authorization"]
	}
	resp, err := a.Client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("call the API: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer of the API: %w", err)
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("the answer has more than %d bytes; ask for fewer items with limit", maxAnswer)
	}
	var answer struct {
		Data  json.RawMessage `json:"data"`
		Meta  json.RawMessage `json:"meta"`
		Error *struct {
			Code    string            `json:"code"`
			Message string            `json:"message"`
			Details map[string]string `json:"details"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("the API answered with status %d and no JSON%s", resp.StatusCode, a.hint(resp.StatusCode))
	}
	switch {
	case answer.Error != nil:
		text := answer.Error.Code + ": " + answer.Error.Message
		for _, name := range slices.Sorted(maps.Keys(answer.Error.Details)) {
			if detail := name + " " + answer.Error.Details[name]; !strings.Contains(answer.Error.Message, detail) {
				text += "; " + detail
			}
		}
		// The path does not exist. A missing service or insight has another code.
		if answer.Error.Code == string(assay.CodeNotFound) {
			text += a.hint(resp.StatusCode)
		}
		return nil, errors.New(text)
	case resp.StatusCode != http.StatusOK || answer.Data == nil:
		return nil, fmt.Errorf("the API answered with status %d", resp.StatusCode)
	}
	var meta struct {
		Total *int `json:"total"`
	}
	if json.Unmarshal(answer.Meta, &meta) != nil || meta.Total == nil {
		return answer.Data, nil
	}
	return json.Marshal(map[string]any{"items": answer.Data, "total": *meta.Total})
}

// hint returns a text to append to the error of an unknown path, or "" if the user has not configured the base URL.
func (a *API) hint(status int) string {
	if status != http.StatusNotFound || a.Authorization == "" {
		return ""
	}
	return "; is --url the root of the API, such as https://HOST/api?"
}

// Handler is a transport that calls a handler in this process, with the address of the client of the message.
type Handler struct {
	Handler http.Handler
}

// RoundTrip implements http.RoundTripper. It buffers at most maxAnswer+1 bytes of the answer in memory.
func (h Handler) RoundTrip(r *http.Request) (*http.Response, error) {
	t := inprocess.Transport{Handler: h.Handler, Max: maxAnswer + 1}
	if m, ok := r.Context().Value(messageKey{}).(*message); ok {
		return m.outside(r, t)
	}
	return t.RoundTrip(r)
}
