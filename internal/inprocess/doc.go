// SPDX-License-Identifier: Apache-2.0

// Package inprocess calls HTTP handlers of this process without a connection. Responses are in memory.
package inprocess
