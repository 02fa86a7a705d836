// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"hash/crc32"
	"time"

	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/trace"
	"assay/internal/wire"
)

// Span kinds of OTLP.
const (
	kindInternal = 1
	kindClient   = 3
)

// maxSpanNames is the number of distinct span names of a service in one hour
// above which SPA-003 fails.
const maxSpanNames = 1000

// shortSpan is the duration below which a span is short (SPA-005).
const shortSpan = uint64(5 * time.Millisecond)

// spanMessage evaluates one span.
func (e *Evaluator) spanMessage(m wire.Message) error {
	sp := &e.span
	if err := sp.Decode(m); err != nil {
		return err
	}
	b, s := e.batch, e.service
	b.Items[delta.Traces]++
	t, inWindow := e.eventTime(sp.EndTimeUnixNano)
	s.Seen(t)
	if t >= e.newest.time {
		e.newest.time = t
		e.newest.traceID = [16]byte{}
		copy(e.newest.traceID[:], sp.TraceID)
	}
	name := hashBytes(sp.Name)
	if err := e.openSpan(t, name); err != nil {
		return err
	}
	evaluated := inWindow && !s.overflow
	if evaluated {
		s.at(e, t)
	}

	v, err := e.spanAttributes(evaluated)
	if err != nil {
		return err
	}
	text := e.hashedText(sp.Name, name) | e.text(sp.StatusMessage)
	v |= text | e.scopeBits
	if !evaluated {
		if s.overflow {
			b.overflowed(e, t, sp.TraceID)
		}
		return nil
	}
	counts := s.at(e, t)
	counts[catalog.RES004].Observed++
	counts[catalog.SPA006].Observed++
	counts[catalog.DeprecatedAttributes].Observed++
	e.spanName(t, name)
	if sp.ParentSpanID == nil && !e.resource.web { // SPA-004
		counts[catalog.SPA004].Observed++
		if sp.Kind == kindClient {
			counts[catalog.SPA004].Failed++
			s.fail(catalog.SPA004, t, sp.TraceID, e.resource)
			e.nameEvidence(catalog.SPA004, delta.SpanNames, sp.Name)
		}
	}
	if v&bad == 0 {
		return nil
	}
	if text&sensitiveData != 0 {
		e.textEvidence(catalog.SPA006, "span name", sp.Name, e.text(sp.Name))
		e.textEvidence(catalog.SPA006, "status message", sp.StatusMessage, e.text(sp.StatusMessage))
	}
	e.scopeFails(t)
	e.recordFailures(counts, v, t, sp.TraceID, catalog.SPA006)
	if v&sensitiveData != 0 {
		e.nameEvidence(catalog.SPA006, delta.SpanNames, sp.Name)
	}
	if v&misplacedOnRecord != 0 {
		e.nameEvidence(catalog.RES004, delta.SpanNames, sp.Name)
	}
	return nil
}

// recordFailures counts the failures in the verdict on a span, metric or log record.
func (e *Evaluator) recordFailures(counts *[catalog.Count]delta.Count, v verdict, t uint64, traceID []byte, sensitiveRule catalog.Rule) {
	for _, f := range [...]struct {
		bit  verdict
		rule catalog.Rule
	}{
		{sensitiveData, sensitiveRule}, {misplacedOnRecord, catalog.RES004}, {deprecatedKey, catalog.DeprecatedAttributes},
	} {
		if v&f.bit != 0 {
			counts[f.rule].Failed++
			e.service.fail(f.rule, t, traceID, e.resource)
		}
	}
}

// spanAttributes returns the verdicts on the attributes of the current span, its events
// and its links. If the span is evaluated, it adds the evidence of bad verdicts.
func (e *Evaluator) spanAttributes(evaluated bool) (verdict, error) {
	sp := &e.span
	v, err := e.attributeList(sp.Attributes, bad, catalog.SPA006, "attribute", evaluated)
	if err != nil {
		return 0, err
	}
	// Only the attributes of the span itself can have misplaced keys (RES-004).
	const elsewhere = bad &^ misplacedOnRecord
	events := sp.Events
	for m, ok := events.Next(); ok; m, ok = events.Next() {
		if err := e.spend(stepsPerPart); err != nil {
			return 0, err
		}
		if err := e.event.Decode(m); err != nil {
			return 0, err
		}
		name := e.text(e.event.Name)
		if name&sensitiveData != 0 && evaluated {
			e.textEvidence(catalog.SPA006, "event name", e.event.Name, name)
		}
		av, err := e.attributeList(e.event.Attributes, elsewhere, catalog.SPA006, "event attribute", evaluated)
		if err != nil {
			return 0, err
		}
		v |= name | av
	}
	e.steps += events.Passed()
	links := sp.Links
	for m, ok := links.Next(); ok; m, ok = links.Next() {
		if err := e.spend(stepsPerPart); err != nil {
			return 0, err
		}
		if err := e.link.Decode(m); err != nil {
			return 0, err
		}
		av, err := e.attributeList(e.link.Attributes, elsewhere, catalog.SPA006, "link attribute", evaluated)
		if err != nil {
			return 0, err
		}
		v |= av
	}
	e.steps += links.Passed()
	return v, nil
}

// attributeList returns the verdicts in mask on a list of attributes. On request, it adds
// the evidence of bad verdicts.
func (e *Evaluator) attributeList(list wire.Repeated, mask verdict, rule catalog.Rule, where string, note bool) (verdict, error) {
	var all verdict
	e.listHash = 0
	for m, ok := list.Next(); ok; m, ok = list.Next() {
		if err := e.spend(1); err != nil {
			return 0, err
		}
		h := hashBytes(m.Bytes)
		e.listHash += h
		v, err := e.hashedAttribute(m, h)
		if err != nil {
			return 0, err
		}
		v &= mask
		// The places of one rule differ in length, so the length identifies the place.
		if v != 0 && note && e.unnoted(delta.Mix(h, uint64(rule)<<8|uint64(len(where)))) {
			e.attributeEvidence(rule, where, m, v)
		}
		all |= v
	}
	e.steps += list.Passed()
	return all, nil
}

// openSpan passes the current span to the trace assembler. name is the hash of its name.
func (e *Evaluator) openSpan(t, name uint64) error {
	sp := &e.span
	if sp.TraceID == nil {
		return nil
	}
	e.steps += stepsPerPart
	b := e.batch
	if len(b.Spans) == e.cfg.MaxSpans {
		return &wire.Error{Offset: e.offset, Field: "ExportTraceServiceRequest", Reason: errTooMany}
	}
	if n := len(b.Spans); n == 0 || b.Spans[n-1].Resource != e.resource.trace {
		b.texts += e.resource.trace.Texts()
	}
	b.Spans = append(b.Spans, trace.Span{
		Time: t, Resource: e.resource.trace, Internal: sp.Kind == kindInternal,
		Short: sp.EndTimeUnixNano >= sp.StartTimeUnixNano && sp.EndTimeUnixNano-sp.StartTimeUnixNano < shortSpan,
	})
	o := &b.Spans[len(b.Spans)-1]
	o.Name, o.NameHash = e.hashedShown(sp.Name, name), name
	copy(o.TraceID[:], sp.TraceID)
	copy(o.SpanID[:], sp.SpanID)
	copy(o.ParentID[:], sp.ParentSpanID)
	if e.service.overflow {
		o.Resource = e.overflow
	}
	return nil
}

// spanName adds the name of the current span to the service's names of the hour
// (SPA-003). name is the hash of the name.
func (e *Evaluator) spanName(t, name uint64) {
	s := e.service
	const hour = uint64(time.Hour)
	hours := t / hour
	h := delta.Mix(delta.Mix(s.hash, hours), name+uint64(s.bucket))
	if e.has(h) {
		return
	}
	e.steps += stepsPerFact + uint64(len(e.span.Name))/bytesPerStep
	before := len(s.Distinct)
	set := s.DistinctSet(delta.DistinctKey{Rule: catalog.SPA003, Hour: int64(hours * 3600), Key: delta.KeySpanNames}, s.bucket, maxSpanNames+1, "", "")
	set.Add(e.in.HashKey.Sum64(delta.DomainSpanName, e.span.Name))
	e.batch.facts += len(s.Distinct) - before
	e.remember(h)
	// A service near the limit has many names. One in 64 is enough evidence, and a healthy
	// service adds almost none. The selection does not depend on the key, so the same
	// telemetry has the same evidence.
	if crc32.ChecksumIEEE(e.span.Name)&63 == 0 {
		e.nameEvidence(catalog.SPA003, delta.SpanNames, e.span.Name)
	}
	s.fail(catalog.SPA003, t, e.span.TraceID, e.resource)
}

// overflowed counts a record beyond a quota.
func (b *Batch) overflowed(e *Evaluator, t uint64, traceID []byte) {
	b.OverflowItems++
	if t >= e.in.Start {
		b.quotaExceeded(e, t, traceID)
	}
}

// quotaExceeded counts a failure of the insight about quotas.
func (b *Batch) quotaExceeded(e *Evaluator, t uint64, traceID []byte) {
	s := b.overflow()
	c := &s.at(e, t)[catalog.QuotaExceeded]
	c.Observed++
	c.Failed++
	s.fail(catalog.QuotaExceeded, t, traceID, e.resource)
}
