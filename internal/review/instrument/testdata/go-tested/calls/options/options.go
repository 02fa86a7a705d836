// SPDX-License-Identifier: Apache-2.0

// Package options has options of servers.
package options

import "google.golang.org/grpc"

// One is an option.
func One() grpc.ServerOption { return grpc.MaxRecvMsgSize(1 << 20) }

// Two are two options.
func Two() (first, second grpc.ServerOption) { return One(), One() }
