// SPDX-License-Identifier: Apache-2.0

// Package codebase is the agent: the operations below /v1/agent on repositories, onboarding, runs and findings.
//
// New returns the handler of the operations. It identifies callers only by the token that assay signs (token.go, keys.go),
// so that it serves the same requests inside of `assay serve` and alone. Its state is in an assay.CodebaseStore.
// The callback and the webhooks of source hosts have a handler of their own (public.go), without a token: a state that is
// valid once, or a signature, takes its place. Package source reads repositories, package run executes runs. The handler reads no repository content: it schedules
// runs and shows what they stored.
package codebase
