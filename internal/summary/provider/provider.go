// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"assay/internal/summary"
)

// The kinds of providers.
const (
	OpenAI    = "openai"    // any endpoint that speaks OpenAI's chat completions
	Anthropic = "anthropic" // any endpoint that speaks Anthropic's messages
)

// Config says which model to ask.
type Config struct {
	Kind string // OpenAI or Anthropic
	// URL of the API, such as https://api.openai.com/v1 or http://localhost:11434/v1.
	// The address of the operation itself is taken as well, and /v1 is added to
	// one without a path. Default: the provider's own.
	URL   string
	Model string
	// APIKey is sent with every request and shown nowhere. Models that run
	// nearby need none.
	APIKey string
	// Wrap returns a transport around the one that is given, for traces and
	// metrics; nil leaves it as it is.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// maxTokens bounds an answer, with what a model thinks before it.
const maxTokens = 4096

// New returns the provider that c describes. Nothing but c decides whom it
// asks and with which key: of the environment it reads the proxy alone.
func New(c Config) (summary.Provider, error) {
	if c.Model == "" {
		return nil, errors.New("provider: no model is given")
	}
	if c.APIKey != strings.TrimSpace(c.APIKey) || strings.ContainsFunc(c.APIKey, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, errors.New("provider: the API key holds spaces around it, line ends or other characters that no header can have")
	}
	switch c.Kind {
	case OpenAI:
		base, err := baseURL(c.URL, "https://api.openai.com/v1", "/chat/completions")
		if err != nil {
			return nil, err
		}
		return newOpenAI(base, c), nil
	case Anthropic:
		base, err := baseURL(c.URL, "https://api.anthropic.com/v1", "/messages")
		if err != nil {
			return nil, err
		}
		return newAnthropic(base, c), nil
	default:
		return nil, fmt.Errorf("provider: unknown kind of provider %q: it is %s or %s", c.Kind, OpenAI, Anthropic)
	}
}

// baseURL returns the URL below which a provider's operations are, with a slash at
// its end.
func baseURL(given, standard, operation string) (string, error) {
	if given == "" {
		given = standard
	}
	u, err := url.Parse(given)
	switch {
	case err != nil: // which may show a password
		return "", errors.New("provider: the provider's URL cannot be parsed")
	case !slices.Contains([]string{"http", "https"}, u.Scheme) || u.Host == "":
		return "", errors.New("provider: the provider's URL is not of the form https://HOST/PATH")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("provider: the provider's URL has a user, a query or a fragment; the API key is given separately")
	}
	path := strings.TrimRight(u.Path, "/")
	path = strings.TrimRight(strings.TrimSuffix(path, operation), "/")
	if path == "" {
		path = "/v1"
	}
	u.Path, u.RawPath = path+"/", ""
	return u.String(), nil
}

// written returns the text of an answer that has one.
func written(text string) (string, error) {
	if strings.TrimSpace(text) == "" {
		return "", &summary.UnusableError{What: "no text"}
	}
	return text, nil
}
