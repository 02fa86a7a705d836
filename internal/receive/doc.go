// SPDX-License-Identifier: Apache-2.0

// Package receive takes OTLP requests in, over gRPC and over HTTP, and hands
// their bytes to an Ingester. It owns what happens at the edge: transport,
// credentials, size limits, decompression, backpressure, and the answers that
// OTLP prescribes. It does not look into the telemetry.
//
// # The way of a request
//
//	headers -> credential -> body -> unpack -> JSON to protobuf -> Ingest -> answer
//
// The credential is checked before a byte of the body is read. The body is read
// into one contiguous buffer; a packed one is unpacked into a second, and the
// first is given back. Both transports share this way from the body on
// (request.go); http.go and grpc.go only differ in how bytes arrive and
// how an answer is written.
//
// # Memory
//
// Every byte of a body is taken from one budget (budget.go) before the memory
// for it is allocated, in steps that follow what has arrived: a client that
// announces much and sends little holds little. When the budget is used up, the newest
// requests of the organization that holds most are refused as retryable, so that an
// organization within its share is served. A request above it waits a short while and is
// then refused as retryable. Memory outside of the budget is limited by counts: requests
// in flight, connections (package connlimit), and the flow control windows of HTTP/2.
//
// # Time
//
// A request has to arrive within Config.ArrivalTimeout. What assay itself needs,
// from the credential to the answer, ends within Config.AnswerTimeout. An idle
// connection, or one that sends no complete HTTP/2 frame for half a minute and answers no
// ping, is closed.
package receive
