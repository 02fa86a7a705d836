// SPDX-License-Identifier: Apache-2.0

// Package orders counts orders and sends the count as OTLP/JSON.
package orders
