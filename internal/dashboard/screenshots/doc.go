// SPDX-License-Identifier: Apache-2.0

// Command screenshots takes screenshots of every page of the dashboard, in light and dark theme, on a wide screen and
// on a phone, with the invented organization of dashboardtest.
package main
