// SPDX-License-Identifier: Apache-2.0

// Package tlsreload serves TLS with a certificate that can be renewed while it is
// used: its files are read again every few seconds, and connections that begin after
// a change get the new certificate. A pair that does not fit, such as one that is half
// written, changes nothing.
package tlsreload
