// SPDX-License-Identifier: Apache-2.0

// Package storetest is the one test suite that every store passes: what the
// domain's interfaces promise, that facts merge in any order and grouping, that
// expiry takes away exactly what it should, and that nothing is lost between
// goroutines, between two handles of one store, or by closing it.
//
// A store's own tests name it and no more:
//
//	storetest.Run(t, func(t testing.TB, now func() time.Time) storetest.Opener { ... })
package storetest
