// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"net/http"
	"testing"
)

type fake struct{ requests, closed int }

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	f.requests++
	return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody, Request: r}, nil
}

func (f *fake) CloseIdleConnections() { f.closed++ }

// TestDefault replaces the default transport after the clients were made.
func TestDefault(t *testing.T) {
	was := http.DefaultTransport
	defer func() { http.DefaultTransport = was }()
	fake := &fake{}
	http.DefaultTransport = fake
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://shop.invalid/items", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, send := range map[string]func() (*http.Response, error){
		"function":       func() (*http.Response, error) { return Fetch(t.Context(), request.URL.String()) },
		"default client": func() (*http.Response, error) { return Do(request) },
		"other client":   func() (*http.Response, error) { return Patient.Do(request) },
	} {
		answer, err := send()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusTeapot {
			t.Errorf("%s: status %d, error %v", name, answer.StatusCode, err)
		}
	}
	Patient.CloseIdleConnections()
	if fake.requests != 3 || fake.closed != 1 {
		t.Errorf("%d requests, connections closed %d times", fake.requests, fake.closed)
	}
}
