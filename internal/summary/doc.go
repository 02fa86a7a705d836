// SPDX-License-Identifier: Apache-2.0

// Package summary has a language model explain insights: why one matters, what
// it costs here, and the next step.
//
// # The way of a summary
//
//	insight ─▶ prompt ─▶ key ─▶ store? ─▶ flight ─▶ provider ─▶ answer ─▶ store
//
// The prompt (prompts/v1.md) has two parts that never mix: what this program says
// itself, with the texts of the insight's type, and one JSON document made from
// the telemetry. Telemetry is written by strangers. What it says reaches the
// document only where it has the shape of an identifier, holds nothing sensitive
// and does not read like text; anything else is replaced by a description of it
// (name.go). Counts are shown as orders of magnitude, so that a summary stays
// valid while a busy service goes on.
//
// The hash of both parts is the evidence of the key under which a summary is
// stored, so it is written once and again only when what it was made from
// changed. Requests for the same key share one call, which goes on when the
// caller who began it leaves.
//
// Nothing that a model answers is trusted either. The answer is parsed as
// Markdown and written anew from what is harmless (answer.go): no HTML, no
// images, no links but to hosts that the insight's type links to.
package summary
