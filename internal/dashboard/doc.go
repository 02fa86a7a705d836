// SPDX-License-Identifier: Apache-2.0

// Package dashboard is the pages at the root of the server: scores, findings, log
// volume, cost and API keys for people.
//
// Every page is HTML from the server and works without scripting. It reads what the
// REST API reads, through the interfaces of the root package, and has no query of
// its own. Charts are SVG in the page with a table beside each of them.
//
// A page is two templates: the layout, and within it what the page has of its own.
// The script asks for the latter again every few seconds, with its ETag, and changes
// the nodes that differ. It is one file of the package and not a library: what it
// does (updates, copying, read-outs of charts) is less than what any library has to
// be told to do it, and the Content-Security-Policy allows no inline handlers, in
// which such libraries are written.
//
// What comes from telemetry is a stranger's text. It reaches a page through name,
// fullName and plain alone, which show what would be invisible, isolate direction and
// bound the length; html/template escapes everything.
//
// Who is signed in is decided before a request comes here. Every page but the one for
// signing in asks Config.Session.
package dashboard
