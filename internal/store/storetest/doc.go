// SPDX-License-Identifier: Apache-2.0

// Package storetest is the test suite for all stores. It checks the contracts of the
// domain's interfaces: facts merge in any order and grouping, expiry deletes exactly the
// expired data, and no data is lost between goroutines, between two handles of one store,
// or on Close.
//
// The tests of a store call Run:
//
//	storetest.Run(t, func(t testing.TB, now func() time.Time) storetest.Opener { ... })
package storetest
