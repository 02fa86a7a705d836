// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // registers the name; without it, the library refuses the call early
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/known/durationpb"

	"assay/internal/connlimit"
	"assay/internal/requestid"
	"assay/internal/wire"
)

// callStream is the part of a gRPC call below ServerStream that reads a message in pieces. RecvMsg does not fit: it
// reads a whole message of a size chosen by the sender before its memory can be charged, and decompresses it without
// regard to other calls.
type callStream interface {
	RecvCompress() string
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
}

func (r *Receiver) newGRPCServer() *grpc.Server {
	limit := r.cfg.ArrivalTimeout + 2*r.cfg.AnswerTimeout // of a request
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(rawCodec{}),
		grpc.InTapHandle(admit),
		grpc.ConnectionTimeout(r.cfg.ArrivalTimeout),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeaderList),
		// Use static windows. Dynamic ones would let a sender fill 16 MiB for each call that is not being read.
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(8 * streamWindow),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle:     idleTimeout,
			MaxConnectionAge:      30 * time.Minute, // lets senders discover new replicas
			MaxConnectionAgeGrace: limit,
			Time:                  pingAfter,
			Timeout:               pingTimeout,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	}
	secure := insecure.NewCredentials()
	if r.cfg.TLS != nil {
		secure = credentials.NewTLS(r.cfg.TLS)
	}
	s := grpc.NewServer(append(options, grpc.Creds(framed{secure, limit}))...)
	for signal, service := range map[wire.Signal]string{
		wire.Traces:  "opentelemetry.proto.collector.trace.v1.TraceService",
		wire.Metrics: "opentelemetry.proto.collector.metrics.v1.MetricsService",
		wire.Logs:    "opentelemetry.proto.collector.logs.v1.LogsService",
	} {
		s.RegisterService(&grpc.ServiceDesc{
			ServiceName: service,
			// The method is declared as a client stream, which is the same on the wire, because the library passes
			// the message of any other method as a whole.
			Streams: []grpc.StreamDesc{{
				StreamName:    "Export",
				ClientStreams: true,
				Handler:       func(_ any, stream grpc.ServerStream) error { return r.export(stream, signal) },
			}},
		}, nil)
	}
	return s
}

// framed limits the HTTP/2 frames and the requests of connections.
type framed struct {
	credentials.TransportCredentials
	limit time.Duration // of a request
}

// ServerHandshake implements credentials.TransportCredentials.
func (f framed) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := f.TransportCredentials.ServerHandshake(raw)
	if limited, ok := raw.(*connlimit.Conn); ok && err == nil {
		c = limited.Framed(c, f.limit)
	}
	return c, info, err
}

type cancelKey struct{}

// Limits of the headers that a call keeps in memory until its client has accepted the response. Compressed, a header
// field of a known name and value takes one byte of a request.
const (
	maxHeaderFields = 64
	maxHeaderValue  = 256 // bytes; the names of codecs that a client accepts
)

// maxHeaderList is the size of headers, as HTTP/2 counts it, above which the library ends a call without a status. A proxy
// such as nginx takes that for a failure of the server and stops using it, so it is above the 32 KiB that nginx accepts by
// default, with a hundred fields. Headers that have not ended take three times as much memory.
const maxHeaderList = 36 << 10

var errHeaders = status.Errorf(codes.ResourceExhausted, "the header of the call is longer than %d bytes, or has more than %d fields, or more than %d bytes in one for the library", maxHeaderBytes, maxHeaderFields, maxHeaderValue)

// admit refuses calls with too long headers or too many fields and removes the fields that assay does not read. It makes the
// context of the call cancelable by the call itself: there is no other way to stop waiting for a message.
func admit(ctx context.Context, call *tap.Info) (context.Context, error) {
	fields, size := 0, 0
	for name, values := range call.Header {
		fields += len(values)
		for _, v := range values {
			size += len(name) + len(v)
		}
		switch name {
		case "content-type", "grpc-accept-encoding": // the library keeps them
			for _, v := range values {
				if len(v) > maxHeaderValue {
					return nil, errHeaders
				}
			}
		case "authorization", strings.ToLower(requestid.Header):
		default:
			delete(call.Header, name)
		}
	}
	if fields > maxHeaderFields || size > maxHeaderBytes {
		return nil, errHeaders
	}
	ctx, cancel := context.WithCancelCause(ctx)
	return context.WithValue(ctx, cancelKey{}, cancel), nil
}

// export handles one call.
func (r *Receiver) export(stream grpc.ServerStream, signal wire.Signal) error {
	ctx := withRequestID(stream.Context(), metadata.ValueFromIncomingContext(stream.Context(), requestid.Header))
	// SetHeader fails only if the call has ended, and then no client is left to read the header.
	_ = grpc.SetHeader(ctx, metadata.Pairs(requestid.Header, requestid.FromContext(ctx)))
	var remoteAddr string
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		remoteAddr = p.Addr.String()
	}
	q := r.request(GRPC, signal)
	defer q.answered()
	warning, err := q.serve(ctx, metadata.ValueFromIncomingContext(ctx, "authorization"), remoteAddr, func(ctx context.Context) (string, error) {
		body, enc, err := q.readGRPC(ctx, stream.Context())
		if err != nil {
			return "", err
		}
		return q.ingest(ctx, body, enc, false)
	})
	if err != nil {
		return callStatus(err)
	}
	if warning != "" {
		// The library would compress the response like the request.
		if err := grpc.SetSendCompressor(ctx, "identity"); err != nil {
			return err
		}
	}
	return stream.SendMsg(mem.SliceBuffer(success(warning)))
}

// readGRPC reads the call's message. It stops when ctx is canceled with a refusal. ctx descends from call, the context
// of the call.
func (q *request) readGRPC(ctx, call context.Context) (*buffer, encoding, error) {
	stream, ok := grpc.ServerTransportStreamFromContext(ctx).(callStream)
	if !ok {
		return nil, plain, errors.New("receive: gRPC stream does not support reading in pieces")
	}
	cancel, ok := ctx.Value(cancelKey{}).(context.CancelCauseFunc)
	if !ok {
		return nil, plain, errors.New("receive: gRPC call context is not cancelable")
	}
	timer := time.AfterFunc(q.cfg.ArrivalTimeout-time.Since(q.began), func() { cancel(errSlow) })
	defer timer.Stop()
	stopDraining := context.AfterFunc(q.arrival, func() { cancel(errDraining) })
	defer stopDraining()
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer stop()

	body, enc, err := q.readMessage(ctx, stream)
	if err == nil {
		return body, enc, nil
	}
	// Canceling a context ends reads before it cancels the context's descendants, so ctx may not have the cause yet.
	if cause, ok := errors.AsType[*refusal](context.Cause(call)); ok {
		return nil, plain, cause
	}
	if _, ok := errors.AsType[*refusal](err); ok {
		return nil, plain, err
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, plain, errTruncated
	}
	return nil, plain, fmt.Errorf("%w: %w", errCanceled, err) // the call or its connection has ended
}

// readMessage reads the single message of a call: one byte for the compressed flag, four bytes of length, the
// message, and the end of the stream.
func (q *request) readMessage(ctx context.Context, stream callStream) (body *buffer, enc encoding, err error) {
	var header [5]byte
	if err := stream.ReadMessageHeader(header[:]); err != nil {
		if err == io.EOF {
			err = errNoMessage
		}
		return nil, plain, err
	}
	if header[0] != 0 {
		if enc, err = parseEncoding(stream.RecvCompress()); err != nil {
			return nil, plain, err
		}
		if header[0] != 1 || enc == plain {
			return nil, plain, errFrame
		}
	}
	size := int64(binary.BigEndian.Uint32(header[1:]))
	body, err = q.read(ctx, &message{stream, size}, size, enc)
	if err != nil {
		return nil, plain, err
	}
	switch err := stream.ReadMessageHeader(header[:]); err {
	case io.EOF:
		return body, enc, nil
	case nil:
		err = errTwoMessages
		fallthrough
	default:
		q.reservation.free(body)
		return nil, plain, err
	}
}

// message reads the content of one message.
type message struct {
	stream callStream
	left   int64
}

func (m *message) Read(p []byte) (int, error) {
	if m.left == 0 {
		return 0, io.EOF
	}
	data, err := m.stream.Read(min(len(p), int(m.left), streamWindow))
	if err != nil {
		return 0, err
	}
	n := data.CopyTo(p)
	data.Free()
	m.left -= int64(n)
	return n, nil
}

// callStatus returns the gRPC status for err.
func callStatus(err error) error {
	outcome, message := classify(err)
	a := outcome.answer()
	s := status.New(a.grpc, message)
	if a.retry && a.grpc != codes.Canceled {
		if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retryDelay(err))}); err == nil {
			s = detailed
		}
	}
	return s.Err()
}

// rawCodec sends encoded messages. It never receives one.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.(mem.SliceBuffer)
	if !ok {
		return nil, fmt.Errorf("receive: unsupported message type %T", v)
	}
	return mem.BufferSlice{b}, nil
}

func (rawCodec) Unmarshal(mem.BufferSlice, any) error {
	return errors.New("receive: Unmarshal is not supported")
}
