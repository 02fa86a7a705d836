// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/wire"
)

// Severity numbers of DEBUG, DEBUG2, DEBUG3 and DEBUG4.
const (
	severityDebug  = 5
	severityDebug4 = 8
)

// logMessage evaluates one log record.
func (e *Evaluator) logMessage(m wire.Message) error {
	r := &e.record
	if err := r.Decode(m); err != nil {
		return err
	}
	b, s := e.batch, e.service
	b.Items[delta.Logs]++
	b.severities[assay.SeverityOf(r.SeverityNumber)]++
	timestamp := r.TimeUnixNano
	if timestamp == 0 {
		timestamp = r.ObservedTimeUnixNano
	}
	t, inWindow := e.eventTime(timestamp)
	s.Seen(t)
	if t >= e.newest.time {
		e.newest.time = t
		e.newest.traceID = [16]byte{}
		copy(e.newest.traceID[:], r.TraceID)
	}
	evaluated := inWindow && !s.overflow
	if evaluated {
		s.at(e, t)
	}
	v, err := e.attributeList(r.Attributes, bad, catalog.LOG003, "attribute", evaluated)
	if err != nil {
		return err
	}
	body := known
	if r.HasBody {
		if body, err = e.body(r.Body); err != nil {
			return err
		}
	}
	name := e.text(r.EventName)
	if !evaluated {
		if s.overflow {
			b.overflowed(e, t, r.TraceID)
		}
		return nil
	}
	v |= body | name | e.scopeBits

	counts := s.at(e, t)
	counts[catalog.RES004].Observed++
	counts[catalog.DeprecatedAttributes].Observed++
	counts[catalog.LOG003].Observed++
	counts[catalog.LOG002].Observed++
	if r.SeverityNumber == 0 { // LOG-002
		counts[catalog.LOG002].Failed++
		s.fail(catalog.LOG002, t, r.TraceID, e.resource)
	}
	if e.resource.production {
		e.logDay(t)
	}
	if v&bad == 0 {
		return nil
	}
	if body&sensitiveData != 0 {
		e.bodyEvidence()
	}
	e.textEvidence(catalog.LOG003, "event name", r.EventName, name)
	e.scopeFails(t)
	e.recordFailures(counts, v, t, r.TraceID, catalog.LOG003)
	return nil
}

// logDay records that the current service sent log records on the day of t, and whether
// it sent a DEBUG record (LOG-001).
func (e *Evaluator) logDay(t uint64) {
	const day = uint64(24 * time.Hour)
	r := &e.record
	e.logDayClaim(delta.KeyLogDay, t/day, t)
	if r.SeverityNumber >= severityDebug && r.SeverityNumber <= severityDebug4 || bytes.EqualFold(r.SeverityText, []byte("DEBUG")) {
		e.logDayClaim(delta.KeyDebugDay, t/day, t)
		e.service.fail(catalog.LOG001, t, r.TraceID, e.resource)
	}
}

func (e *Evaluator) logDayClaim(key, day, t uint64) {
	if h := claimHash(e.service, catalog.LOG001, key, day); !e.has(h) {
		e.claim(h, delta.Claim{Rule: catalog.LOG001, Key: delta.Hash128{Low: key}, Value: day}, t, "", "")
	}
}

// bodyEvidence adds evidence of the sensitive data in the body of the current record.
func (e *Evaluator) bodyEvidence() {
	var v wire.Value
	if e.service.full(catalog.LOG003, delta.Findings) || v.Decode(e.record.Body) != nil {
		return
	}
	e.decodedAgain(e.record.Body)
	kind, at := e.valueKind(e.meter.UnderKey(nil), nil, &v)
	e.finding(catalog.LOG003, "body", at, kind)
}
