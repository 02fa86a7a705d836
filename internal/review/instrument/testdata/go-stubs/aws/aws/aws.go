// SPDX-License-Identifier: Apache-2.0

// Package aws has the part of github.com/aws/aws-sdk-go-v2/aws that a test program uses.
package aws

// String returns a pointer.
func String(s string) *string { return &s }
