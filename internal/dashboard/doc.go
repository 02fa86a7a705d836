// SPDX-License-Identifier: Apache-2.0

// Package dashboard serves the web pages at the root of the server: scores, findings, log volume, cost and API keys.
//
// Every page is server-side HTML and works without scripting. Pages read the data of the REST API, through the
// interfaces of the root package, and have no queries of their own. Charts are inline SVG with a table beside each of
// them.
//
// A page consists of two templates: the layout and its main part. The script requests the main part again every few
// seconds, with its ETag, and replaces the nodes that differ. The script is one file of the package and not a library:
// its features (updates, copying, read-outs of charts) take less code than the configuration of a library, and the
// Content-Security-Policy forbids the inline handlers that such libraries use.
//
// Texts from telemetry are untrusted. Pages show them only through name, fullName and plain, which make invisible
// characters visible, isolate text direction and limit the length. html/template escapes everything.
//
// Requests are authenticated before they reach this package. Every page except the sign-in page requires a session
// from Config.Session.
package dashboard
