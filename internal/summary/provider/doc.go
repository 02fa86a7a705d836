// SPDX-License-Identifier: Apache-2.0

// Package provider asks language models, over OpenAI's chat completions, which many
// models speak, and over Anthropic's messages. It uses the SDKs of both for the
// wire formats alone: retries, timeouts and settings from the environment are off.
package provider
