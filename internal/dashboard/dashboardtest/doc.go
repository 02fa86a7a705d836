// SPDX-License-Identifier: Apache-2.0

// Package dashboardtest is an organization in memory, with everything that the
// dashboard reads: for tests of its pages and for pictures of them. All names and
// data in it are invented.
package dashboardtest
