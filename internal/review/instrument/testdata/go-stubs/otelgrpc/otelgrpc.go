// SPDX-License-Identifier: Apache-2.0

// Package otelgrpc has the part of go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc that a test program uses.
package otelgrpc

import (
	"context"

	"google.golang.org/grpc/stats"
)

type handler struct{}

func (handler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (handler) HandleRPC(context.Context, stats.RPCStats)                         {}
func (handler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (handler) HandleConn(context.Context, stats.ConnStats)                       {}

// NewServerHandler returns a handler without spans.
func NewServerHandler() stats.Handler { return handler{} }

// NewClientHandler returns a handler without spans.
func NewClientHandler() stats.Handler { return handler{} }
