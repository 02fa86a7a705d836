// SPDX-License-Identifier: Apache-2.0

// Package sqlitetest damages stores for tests of error handling.
package sqlitetest
