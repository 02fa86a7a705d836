// SPDX-License-Identifier: Apache-2.0

// Package netguard keeps requests to addresses that users choose within the public Internet, and checks the URLs of
// servers in the configuration.
package netguard
