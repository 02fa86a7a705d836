// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/binary"
	"math"
	"time"

	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/rules/semconv"
	"assay/internal/rules/unit"
	"assay/internal/wire"
)

// maxAttributeValues is the number of distinct values of a metric's attribute in one hour
// from which MET-001 fails.
const maxAttributeValues = 10_000

// metric holds the results that depend only on a metric's name, description and unit.
type metric struct {
	id         uint64 // process-local hash of all of them
	nameHash   uint64 // process-local hash of the name
	unitHash   uint64 // process-local hash of the unit
	name       string // as shown
	unitText   string // as shown
	texts      verdict
	badUnit    bool // MET-002
	namesUnit  bool // MET-005 applies
	unitInName bool // MET-005 fails
	attribute  bool // MET-006 fails
}

// metricOf returns the results for the current metric.
func (e *Evaluator) metricOf() *metric {
	m := &e.metric
	name, unitHash := hashBytes(m.Name), hashBytes(m.Unit)
	h := delta.Mix(delta.Mix(name, unitHash), hashBytes(m.Description))
	if x := e.metrics[h]; x != nil {
		return x
	}
	e.steps += stepsPerNew + uint64(len(m.Name)+len(m.Description)+len(m.Unit))/bytesPerStep
	x := &metric{
		id: h, nameHash: name, unitHash: unitHash,
		name: e.clean(m.Name), unitText: e.clean(m.Unit),
		texts:     e.text(m.Name) | e.text(m.Description) | e.text(m.Unit),
		badUnit:   len(m.Unit) == 0 || !unit.Valid(m.Unit),
		namesUnit: len(m.Unit) > 0 && unit.HasName(m.Unit),
	}
	x.unitInName = x.namesUnit && unit.NamedIn(m.Unit, m.Name)
	_, x.attribute = semconv.Lookup(m.Name)
	if !e.complete() {
		return x
	}
	if len(e.metrics) >= maxMetrics {
		clear(e.metrics)
	}
	e.metrics[h] = x
	return x
}

// points summarizes the data points of the current metric.
type points struct {
	newest   uint64 // event time; 0: no data point
	inWindow bool   // at least one data point is in the window
	bits     verdict
}

// metricMessage evaluates one metric.
func (e *Evaluator) metricMessage(msg wire.Message) error {
	m := &e.metric
	if err := m.Decode(msg); err != nil {
		return err
	}
	metadata := m.Metadata
	for a, ok := metadata.Next(); ok; a, ok = metadata.Next() {
		if err := e.spend(1); err != nil {
			return err
		}
		if _, err := e.attribute(a); err != nil {
			return err
		}
	}
	if err := e.spend(metadata.Passed()); err != nil {
		return err
	}
	if m.DataPoints.Len() == 0 {
		return nil
	}
	if err := e.spend(stepsPerMetric); err != nil {
		return err
	}
	x := e.metricOf()
	e.metricHash, e.seriesBase = delta.Hash128{}, 0
	evaluated := !e.service.overflow && e.admitMetric(x)
	e.stream = delta.Mix(delta.Mix(e.resource.id, e.scopeID), x.id+uint64(m.Type))
	p, err := e.dataPoints(x, evaluated)
	if err != nil || p.newest == 0 {
		return err
	}
	e.newest.time = max(e.newest.time, p.newest)
	if !evaluated {
		return nil
	}
	e.service.Seen(p.newest)
	if p.inWindow {
		e.metricRules(x, &p)
	}
	return nil
}

// stableName returns the stable hash of the name of the current metric.
func (e *Evaluator) stableName() delta.Hash128 {
	if e.metricHash == (delta.Hash128{}) {
		e.metricHash = e.in.HashKey.Sum128(delta.DomainMetric, e.metric.Name)
	}
	return e.metricHash
}

// admitMetric reports whether the quota admits the metric's name.
func (e *Evaluator) admitMetric(x *metric) bool {
	q := e.cfg.Quota
	if q == nil || e.has(claimHash(e.service, catalog.MET003, x.nameHash, x.unitHash)) {
		return true // a committed name has been admitted
	}
	e.steps += 2 * stepsPerFact
	name := e.stableName().Low
	ok, isNew := q.AdmitMetricName(e.in.OrganizationID, e.service.Key, name)
	if isNew {
		e.batch.Admitted = append(e.batch.Admitted, Admission{Service: e.service.Key, MetricName: name})
	}
	return ok
}

// admitDetail reports whether the quota admits one more detail of the service's metrics, at an event time in the window.
func (e *Evaluator) admitDetail(detail, t uint64) bool {
	q := e.cfg.Quota
	if q == nil {
		return true
	}
	e.steps += stepsPerFact
	ok, isNew := q.AdmitMetricDetail(e.in.OrganizationID, e.service.Key, detail)
	if isNew {
		e.batch.Admitted = append(e.batch.Admitted, Admission{Service: e.service.Key, Detail: detail})
	}
	if !ok {
		e.batch.quotaExceeded(e, t, nil)
	}
	return ok
}

// metricRules counts the results for a metric, at the time of its newest data point.
func (e *Evaluator) metricRules(x *metric, p *points) {
	s, b, m := e.service, e.batch, &e.metric
	counts := s.at(e, p.newest)
	e.metricVerdict(counts, catalog.MET002, true, x.badUnit, x, p)
	e.metricVerdict(counts, catalog.MET005, x.namesUnit, x.unitInName, x, p)
	e.metricVerdict(counts, catalog.MET006, true, x.attribute, x, p)
	v := p.bits | x.texts | e.scopeBits
	e.metricVerdict(counts, catalog.MET008, true, v&sensitiveData != 0, x, p)
	counts[catalog.DeprecatedAttributes].Observed++
	if v&deprecatedKey != 0 {
		counts[catalog.DeprecatedAttributes].Failed++
		s.fail(catalog.DeprecatedAttributes, p.newest, nil, e.resource)
		b.item(s, catalog.DeprecatedAttributes, delta.MetricNames, x.name)
	}
	if x.texts&sensitiveData != 0 {
		e.textEvidence(catalog.MET008, "metric name", m.Name, e.text(m.Name))
		e.textEvidence(catalog.MET008, "metric description", m.Description, e.text(m.Description))
		e.textEvidence(catalog.MET008, "metric unit", m.Unit, e.text(m.Unit))
	}
	e.scopeFails(p.newest)
	if p.newest >= e.in.MetricStart { // MET-003
		e.metricClaim(catalog.MET003, x.unitHash, delta.DomainUnit, m.Unit, p.newest, x)
	}
}

func (e *Evaluator) metricVerdict(counts *[catalog.Count]delta.Count, r catalog.Rule, applies, fails bool, x *metric, p *points) {
	if !applies {
		return
	}
	counts[r].Observed++
	if fails {
		counts[r].Failed++
		e.service.fail(r, p.newest, nil, e.resource)
		e.batch.item(e.service, r, delta.MetricNames, x.name)
	}
}

// metricClaim claims a unit or list of bounds for the name of the current metric. hash is
// the process-local hash of value.
func (e *Evaluator) metricClaim(r catalog.Rule, hash uint64, d delta.Domain, value []byte, t uint64, x *metric) {
	e.steps += 2 * stepsPerFact
	h := claimHash(e.service, r, x.nameHash, hash)
	if e.has(h) {
		return
	}
	c := delta.Claim{Rule: r, Key: e.stableName(), Value: e.in.HashKey.Sum64(d, value)}
	if !e.admitDetail(delta.LocalHash(c), t) {
		return
	}
	text := ""
	if r == catalog.MET003 {
		text = x.unitText
	}
	e.claim(h, c, t, x.name, text)
}

// dataPoints evaluates the data points of the current metric.
func (e *Evaluator) dataPoints(x *metric, evaluated bool) (points, error) {
	var p points
	var bounds uint64
	var haveBounds bool
	list := e.metric.DataPoints
	for m, ok := list.Next(); ok; m, ok = list.Next() {
		if err := e.spend(stepsPerPart); err != nil {
			return p, err
		}
		dp := &e.point
		if err := dp.Decode(e.metric.Type, m); err != nil {
			return p, err
		}
		if err := e.pointParts(); err != nil {
			return p, err
		}
		e.batch.Items[delta.Metrics]++
		t, inWindow := e.eventTime(dp.TimeUnixNano)
		p.newest = max(p.newest, t)
		note := evaluated && inWindow
		if note {
			p.inWindow = true
			e.service.at(e, t)
		}
		v, err := e.attributeList(dp.Attributes, bad&^misplacedOnRecord, catalog.MET008, "data point attribute", note)
		if err != nil {
			return p, err
		}
		attributes := e.listHash
		exemplars := dp.Exemplars
		for xm, ok := exemplars.Next(); ok; xm, ok = exemplars.Next() {
			if err := e.spend(stepsPerPart); err != nil {
				return p, err
			}
			if err := e.exemplar.Decode(xm); err != nil {
				return p, err
			}
			xv, err := e.attributeList(e.exemplar.FilteredAttributes, bad&^misplacedOnRecord, catalog.MET008, "exemplar attribute", note)
			if err != nil {
				return p, err
			}
			v |= xv
		}
		if err := e.spend(exemplars.Passed()); err != nil {
			return p, err
		}
		if !note {
			if !evaluated {
				if !e.service.overflow {
					e.batch.elsewhere++
				}
				e.batch.overflowed(e, t, nil)
			}
			continue
		}
		p.bits |= v
		e.notePoint(x, attributes, t)
		if e.metric.Type == wire.MetricHistogram && t >= e.in.MetricStart { // MET-004
			e.steps += uint64(dp.ExplicitBounds.Len())
			e.valueBuf = appendBounds(e.valueBuf[:0], dp.ExplicitBounds)
			if h := hashBytes(e.valueBuf); !haveBounds || h != bounds {
				bounds, haveBounds = h, true
				e.metricClaim(catalog.MET004, h, delta.DomainBounds, e.valueBuf, t, x)
			}
		}
	}
	return p, e.spend(list.Passed())
}

// pointParts validates the parts of the current data point that no rule reads.
func (e *Evaluator) pointParts() error {
	dp := &e.point
	for _, m := range [...]wire.Message{dp.Positive, dp.Negative} {
		if len(m.Bytes) > 0 {
			if err := e.buckets.Decode(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// appendBounds appends a list of bucket bounds in a canonical form, in which -0 equals 0.
func appendBounds(dst []byte, d wire.Doubles) []byte {
	for f, ok := d.Next(); ok; f, ok = d.Next() {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(f+0))
	}
	return dst
}

// attributeValue adds the value of an attribute of the current data point, in e.valueBuf,
// to the values of the metric's attribute in the hour (MET-001). key and value are stable
// hashes.
func (e *Evaluator) attributeValue(x *metric, kv *wire.KeyValue, key, value, base, t uint64) {
	h := delta.Mix(base, delta.Mix(key, value))
	if e.remembered(h) {
		return
	}
	e.steps += 2 * stepsPerFact
	key = delta.Mix(e.stableName().Low, key)
	s := e.service
	k := delta.DistinctKey{Rule: catalog.MET001, Hour: int64(t / uint64(time.Hour) * 3600), Key: key}
	var set *delta.Set
	if f := s.Distinct[k]; f != nil {
		// The set is written anyway, so adding a value costs less than checking whether it is
		// committed.
		set = &f.Values
		f.Last = max(f.Last, s.bucket)
	} else {
		if e.has(h) || !e.admitDetail(key, t) {
			return
		}
		set = s.DistinctSet(k, s.bucket, maxAttributeValues, x.name, e.shown(kv.Key))
		e.batch.facts++
		e.steps += stepsPerNew
	}
	set.Add(value)
	e.remember(h)
	s.fail(catalog.MET001, t, nil, e.resource)
}
