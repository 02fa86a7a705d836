// SPDX-License-Identifier: Apache-2.0

// Package seal encrypts secrets that the store keeps: a nonce of 12 bytes, the encrypted text, a tag of 16 bytes
// (AES-256-GCM).
package seal
