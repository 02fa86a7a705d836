// SPDX-License-Identifier: Apache-2.0

// Package score computes the instrumentation score of a service from its facts, and manages the lifecycle of its
// insights: an insight is opened at the first failure, updated when its evidence changes, and archived when the
// window contains no failure.
package score
