// SPDX-License-Identifier: Apache-2.0

// Package connlimit limits the connections of a listener. Organizations share them through fair.Shares: at the limit,
// a new connection replaces one of the organization that has most, and an organization within its share keeps its
// connections.
//
// A connection belongs to the organization of its last request with an accepted credential. Connections without such
// a request count for one common organization, so that clients without a credential only replace each other. Within
// an organization, the connection that has been idle for longest is closed first. A connection is idle until the
// header of a request has arrived. If none is idle, a request is interrupted: the newest one of an organization, or
// the oldest one without an accepted credential of the address that has most of them.
//
// HTTPListener drops the lines of a header above a limit. Paced limits the requests of an organization over HTTP/1.1, and
// Framed its HTTP/2 frames that carry no telemetry, such as the headers of requests.
//
// A reverse proxy sends requests of many organizations over a few connections. Each counts for the organization of
// its last request, and the proxy has to limit its own clients. A request is still charged to its own
// organization, or over HTTP/1.1 to none.
package connlimit
