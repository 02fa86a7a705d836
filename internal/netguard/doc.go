// SPDX-License-Identifier: Apache-2.0

// Package netguard keeps requests to addresses that users choose within the public Internet.
package netguard
