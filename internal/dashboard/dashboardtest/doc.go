// SPDX-License-Identifier: Apache-2.0

// Package dashboardtest provides an organization in memory with all data that the dashboard reads, for tests and
// screenshots of its pages. All names and data are invented.
package dashboardtest
