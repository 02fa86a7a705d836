// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"net"
	"net/url"
	"strings"
)

// snippets are configuration examples for sending with a key.
type snippets struct{ Environment, Collector string }

// snippets returns configuration examples for a key. Spaces in header values are percent-encoded, as OpenTelemetry
// specifies.
// Source: https://opentelemetry.io/docs/specs/otel/protocol/exporter/#specifying-headers-via-environment-variables
func (q *request) snippets(secret string) snippets {
	overHTTP, overGRPC := endpoint(q.cfg.OTLPHTTP, q.r.Host), endpoint(q.cfg.OTLPGRPC, q.r.Host)
	insecure := ""
	if overGRPC.Scheme == "http" {
		insecure = "    tls:\n      insecure: true\n"
	}
	return snippets{
		Environment: "export OTEL_EXPORTER_OTLP_ENDPOINT=" + overHTTP.String() + "\n" +
			"export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf\n" +
			"export OTEL_EXPORTER_OTLP_HEADERS=\"Authorization=Bearer%20" + secret + "\"",
		Collector: "exporters:\n  otlp/assay:\n    endpoint: " + withPort(overGRPC) + "\n" + insecure +
			"    headers:\n      authorization: Bearer " + secret + "\n",
	}
}

// endpoint returns the URL of address. If address has no host, endpoint uses the host that the browser requested.
func endpoint(address, asked string) *url.URL {
	u, err := url.Parse(address)
	if err != nil { // a name of no host and port, such as that of a socket
		return &url.URL{Path: address}
	}
	if u.Hostname() != "" {
		return u
	}
	host := asked
	if name, _, err := net.SplitHostPort(asked); err == nil {
		host = name
	}
	if host = strings.Trim(host, "[]"); !hostname(host) {
		host = "localhost"
	}
	u.Host = net.JoinHostPort(host, u.Port())
	return u
}

// hostname reports whether a text is a valid host name or address. Users paste it into a shell, and a Host header may
// contain anything.
func hostname(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
	return s != "" && (net.ParseIP(s) != nil || strings.Trim(s, letters) == "")
}

// withPort returns host and port, because a Collector requires both.
func withPort(u *url.URL) string {
	otherwise := "443"
	if u.Scheme == "http" {
		otherwise = "80"
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), otherwise))
}
