// SPDX-License-Identifier: Apache-2.0

// Package llmtest is a language model for tests: a server that speaks the wire
// formats of OpenAI's chat completions and Anthropic's messages, records its
// requests, and responds by a script.
package llmtest
