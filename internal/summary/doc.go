// SPDX-License-Identifier: Apache-2.0

// Package summary generates explanations of insights with a language model: why an insight matters, what it costs, and
// the next step.
//
// # Data flow
//
//	insight ─▶ prompt ─▶ key ─▶ store? ─▶ flight ─▶ provider ─▶ answer ─▶ store
//
// The prompt (prompts/v1.md) has two separate parts: the instructions of this program, with the texts of the insight's
// type, and one JSON document that is built from telemetry. Telemetry is untrusted. The document contains a text from
// telemetry only if the text has the form of an identifier, contains nothing sensitive and does not read like prose.
// Other texts are replaced by a description (name.go). Counts are shown as orders of magnitude, so that a summary
// remains valid while a service runs.
//
// The hash of both parts is the evidence in the key of a stored summary. A summary is therefore generated once, and
// again only when its input has changed. Requests for the same key share one call, which continues when the first
// caller disconnects.
//
// The model's answer is untrusted too. It is parsed as Markdown and rewritten from safe elements (answer.go): no HTML,
// no images, and links only to hosts that the insight's type links to.
package summary
