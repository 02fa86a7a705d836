// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/binary"
	"time"

	"assay/internal/delta"
	"assay/internal/wire"
)

// seriesTimes is in how many parts of the window the time at which a series was
// last seen is told apart.
const seriesTimes = 30

// seriesTime returns the time of a series seen in a bucket: the last bucket of a
// thirtieth of the window, which by default is a UTC day. A series that goes on is
// written once in that time and not with every bucket, and a service whose series
// are new all the time has thirty times to keep apart. It counts until all of
// that part has left the window.
func (e *Evaluator) seriesTime(b delta.Bucket) delta.Bucket {
	step := e.cfg.Step
	window := time.Duration(e.in.Arrival - e.in.Start)
	steps := max(1, int64(window/step)/seriesTimes)
	part := time.Duration(steps) * step
	return delta.BucketOf(uint64(b)*uint64(time.Second), part) + delta.Bucket((part-step)/time.Second)
}

// notePoint counts the data point in hand among the active series of its service,
// and its attribute values among those of the metric in the hour (MET-001).
// attributes is a hash of its attributes for this process.
//
// A series is what the metrics data model calls a timeseries: the resource with
// all its attributes, the scope, the metric with its unit and type, and the
// attributes of the data point, each of these sets whatever its order. Description
// and value are not part of it. Source:
// https://opentelemetry.io/docs/specs/otel/metrics/data-model/#timeseries-model
//
// A histogram's data point is one series here, which Prometheus keeps as one for
// each bucket and two more. Which resource attributes become labels there depends
// on its configuration; all of them tell one instance of a service from another.
func (e *Evaluator) notePoint(x *metric, attributes, t uint64) {
	const hour = uint64(time.Hour)
	s, hours := e.service, t/hour
	when := hours + uint64(s.bucket)<<20
	seen := delta.Mix(e.stream+attributes, when)
	if e.cfg.Filter.Has(seen) {
		return // and all its values were
	}
	e.steps += stepsPerFact
	base := delta.Mix(delta.Mix(s.hash, x.nameHash), when)
	set := uint64(0)
	list := e.point.Attributes
	for m, ok := list.Next(); ok; m, ok = list.Next() {
		var kv wire.KeyValue
		if kv.Decode(m) != nil {
			continue // attributeList has refused it already
		}
		if e.spend(1+uint64(len(m.Bytes))/bytesPerStep) != nil {
			return
		}
		key, value := e.hashAttribute(&kv)
		set += hashPair(key, value, &kv)
		e.attributeValue(x, &kv, key, value, base, t)
	}
	before := s.Series.Held()
	if e.seriesBase == 0 {
		e.seriesBase = e.hashMetric()
	}
	s.Series.Add(delta.Mix(e.seriesBase, set), e.seriesTime(s.bucket))
	e.batch.series += s.Series.Held() - before
	e.remember(seen)
}

// hashMetric returns a stable hash of what the series of the metric in hand have in
// common.
func (e *Evaluator) hashMetric() uint64 {
	if r := e.resource; !r.seriesHashed {
		r.seriesHashed, r.series = true, e.hashResource()
	}
	if !e.scopeHashed {
		e.scopeHashed, e.scopeSeries = true, e.hashScope()
	}
	unit := e.in.HashKey.Sum64(delta.DomainUnit, e.metric.Unit)
	return delta.Mix(delta.Mix(e.resource.series, e.scopeSeries), delta.Mix(e.stableName().Low, unit+uint64(e.metric.Type)))
}

// hashResource returns a stable hash of the resource in hand.
func (e *Evaluator) hashResource() uint64 {
	var r wire.Resource
	if r.Decode(e.entry.Resource) != nil {
		return 0 // decideResource has refused it already
	}
	return e.hashAttributes(r.Attributes)
}

// hashScope returns a stable hash of the scope in hand.
func (e *Evaluator) hashScope() uint64 {
	var s wire.Scope
	if s.Decode(e.scope.Scope) != nil {
		return 0 // scopeVerdict has refused it already
	}
	set := e.hashAttributes(s.Attributes)
	e.valueBuf = append(binary.AppendUvarint(e.valueBuf[:0], uint64(len(s.Name))), s.Name...)
	return delta.Mix(e.in.HashKey.Sum64(delta.DomainScope, append(e.valueBuf, s.Version...)), set)
}

// hashAttributes returns a stable hash of a list of attributes, whatever their order.
func (e *Evaluator) hashAttributes(list wire.Repeated) uint64 {
	set := uint64(0)
	for m, ok := list.Next(); ok; m, ok = list.Next() {
		if e.spend(1+uint64(len(m.Bytes))/bytesPerStep) != nil {
			break
		}
		var kv wire.KeyValue
		if kv.Decode(m) == nil {
			key, value := e.hashAttribute(&kv)
			set += hashPair(key, value, &kv)
		}
	}
	return set
}

// hashAttribute returns stable hashes of an attribute's key and of its value's
// string form, which stays in e.valueBuf.
func (e *Evaluator) hashAttribute(kv *wire.KeyValue) (key, value uint64) {
	e.valueBuf = appendValue(e.valueBuf[:0], &kv.Value)
	return e.in.HashKey.Sum64(delta.DomainAttributeKey, kv.Key), e.in.HashKey.Sum64(delta.DomainAttributeValue, e.valueBuf)
}

// hashPair joins the hashes of an attribute's key and value. The sum of these over
// a list of attributes does not depend on its order.
func hashPair(key, value uint64, kv *wire.KeyValue) uint64 {
	return delta.Mix(key, value+uint64(kv.Value.Kind))
}
