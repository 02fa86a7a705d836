// SPDX-License-Identifier: Apache-2.0

package logvolume

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/prometheus/client_golang/api"
	"github.com/prometheus/common/config"

	"assay"
)

// maxAnswer limits the body of a response, which contains at most a few hundred numbers.
const maxAnswer = 1 << 20

// newHTTPClient returns an authenticating client. It follows no redirects, which would send the credentials elsewhere.
func newHTTPClient(cfg RemoteConfig) (*http.Client, error) {
	c := config.HTTPClientConfig{
		TLSConfig:   config.TLSConfig{CAFile: cfg.CAFile, CertFile: cfg.CertFile, KeyFile: cfg.KeyFile, InsecureSkipVerify: cfg.InsecureSkipVerify},
		ProxyConfig: config.ProxyConfig{ProxyFromEnvironment: true},
		EnableHTTP2: true,
	}
	if cfg.Username != "" || cfg.Password != "" || cfg.PasswordFile != "" {
		c.BasicAuth = &config.BasicAuth{Username: cfg.Username, Password: config.Secret(cfg.Password), PasswordFile: cfg.PasswordFile}
	}
	if cfg.BearerToken != "" || cfg.BearerTokenFile != "" {
		c.Authorization = &config.Authorization{Type: "Bearer", Credentials: config.Secret(cfg.BearerToken), CredentialsFile: cfg.BearerTokenFile}
	}
	if len(cfg.Headers) > 0 {
		c.HTTPHeaders = &config.Headers{Headers: make(map[string]config.Header, len(cfg.Headers))}
		for name, value := range cfg.Headers {
			c.HTTPHeaders.Headers[name] = config.Header{Secrets: []config.Secret{config.Secret(value)}}
		}
		if err := c.HTTPHeaders.Validate(); err != nil {
			return nil, fmt.Errorf("metrics store: %w", err)
		}
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("metrics store: %w", err)
	}
	client, err := config.NewClientFromConfig(c, "metrics-store")
	if err != nil {
		return nil, fmt.Errorf("metrics store: %w", err)
	}
	if cfg.Wrap != nil {
		client.Transport = cfg.Wrap(client.Transport)
	}
	client.Transport = bounded{client.Transport}
	return client, nil
}

// bounded is a transport that fails responses above a size.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswer)
	}
	return resp, err
}

// CloseIdleConnections implements an interface of http.Client.
func (b bounded) CloseIdleConnections() {
	if c, ok := b.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// client is an API client whose errors contain neither the URL nor the response.
type client struct{ api.Client }

// newClient returns a client of the API at address. Credentials must not be part of address.
func newClient(address string, c *http.Client) (api.Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return nil, errors.New("metrics store: not a URL such as https://metrics.example.com/prometheus, without credentials")
	}
	q := u.Query()
	q.Set("nocache", "1") // disable VictoriaMetrics' response cache, which shifts the steps of a range; other stores ignore it
	u.RawQuery = q.Encode()
	next, err := api.NewClient(api.Config{Address: u.String(), Client: c})
	if err != nil {
		return nil, errors.New("metrics store: not a URL")
	}
	return client{next}, nil
}

// Do implements api.Client. A POST that is not allowed is tried again as a GET by
// the caller, who looks at the response.
func (c client) Do(ctx context.Context, r *http.Request) (*http.Response, []byte, error) {
	resp, body, err := c.Client.Do(ctx, r)
	switch {
	case err != nil:
		return nil, nil, broken(err)
	case resp.StatusCode/100 != 2:
		return resp, nil, upstream(fmt.Sprintf("the metrics store answered with status %d", resp.StatusCode), nil)
	default:
		return resp, body, nil
	}
}

// broken converts the error of an exchange to one without the response and without the URL, which errors of net/http
// quote.
func broken(err error) error {
	var dial *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return upstream("the metrics store did not answer in time", nil)
	case errors.As(err, new(*http.MaxBytesError)):
		return upstream("the metrics store's answer is too long", nil)
	case errors.As(err, new(*tls.CertificateVerificationError)), errors.As(err, new(x509.HostnameError)):
		return upstream("the metrics store's certificate is not accepted", nil)
	case errors.As(err, new(*net.DNSError)), errors.As(err, &dial) && dial.Op == "dial":
		return upstream("the metrics store cannot be reached", nil)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &dial):
		return upstream("the metrics store closed the connection", nil)
	default:
		return upstream("the exchange with the metrics store failed", nil)
	}
}

// errNoResult reports a response that does not match the query.
var errNoResult = upstream("the metrics store's answer is not a Prometheus query result", nil)

// failure converts the error of a query. It omits the message of the store, which may contain anything.
func failure(err error) error {
	if told, ok := errors.AsType[*assay.Error](err); ok {
		return told
	}
	return errNoResult
}
