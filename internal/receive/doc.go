// SPDX-License-Identifier: Apache-2.0

// Package receive receives OTLP requests over gRPC and HTTP and passes their bytes to an Ingester. It implements
// transport, credentials, size limits, decompression, backpressure and the responses that OTLP prescribes. It does
// not inspect the telemetry.
//
// # Request path
//
//	headers -> credential -> body -> decompression -> JSON to protobuf -> Ingest -> response
//
// The credential is checked before a byte of the body is read. The body is read into one contiguous buffer. A
// compressed body is decompressed into a second buffer, and the first is released. Both transports share the code
// from the body on (request.go). http.go and grpc.go differ only in how bytes arrive and how a response is written.
//
// # Memory
//
// All bytes of bodies are charged to one budget (budget.go) before they are allocated, in steps that follow the bytes
// that have arrived: a client that announces a large body and sends little holds little memory. When the budget is
// exhausted, the newest requests of the organization that holds most are refused as retryable, so an organization
// within its share is served. A request above the share waits briefly and is then refused as retryable. Memory
// outside the budget is limited by counts: requests in flight, connections (package connlimit), and the flow
// control windows of gRPC.
//
// # Timeouts
//
// A request has to arrive within Config.ArrivalTimeout. The server's own work, from the credential to the response,
// is limited by Config.AnswerTimeout. The server closes idle connections, and connections that send no complete
// frame of gRPC for half a minute and do not answer a ping.
package receive
