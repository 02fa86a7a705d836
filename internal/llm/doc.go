// SPDX-License-Identifier: Apache-2.0

// Package llm is a client of language models, over OpenAI's chat completions, which many models speak, and over
// Anthropic's messages. A conversation may offer tools to the model. The client makes no retries and takes nothing but
// the proxy from the environment. Errors contain nothing of the request, the response and the API key.
package llm
