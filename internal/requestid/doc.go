// SPDX-License-Identifier: Apache-2.0

// Package requestid identifies requests, so that a sender can be pointed to the log records of its request. The id is
// the one that the sender set in the X-Request-Id header, or a generated one that is returned in the same header of
// the response.
package requestid
