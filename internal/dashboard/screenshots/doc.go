// SPDX-License-Identifier: Apache-2.0

// Command screenshots takes a picture of every page of the dashboard, light and dark,
// on a wide screen and on a phone, with the invented organization of dashboardtest.
package main
