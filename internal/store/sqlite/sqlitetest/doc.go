// SPDX-License-Identifier: Apache-2.0

// Package sqlitetest breaks a store on purpose, for tests of what others do then.
package sqlitetest
