// SPDX-License-Identifier: Apache-2.0

// Package requestid names requests, so that what the log says about one can be
// found with what its sender knows of it: the id that the sender gave in the header
// X-Request-Id, or the one that the answer has in the same header.
package requestid
