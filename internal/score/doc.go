// SPDX-License-Identifier: Apache-2.0

// Package score turns the facts of a service into its instrumentation score and
// keeps the life of its insights: opened at the first failure, updated while the
// evidence changes, archived when no failure is left in the window.
package score
