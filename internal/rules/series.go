// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/binary"
	"time"

	"assay/internal/delta"
	"assay/internal/wire"
)

// seriesTimes is the number of parts of the window that the last time of a series
// distinguishes.
const seriesTimes = 30

// seriesTime returns the time of a series seen in a bucket: the last bucket of a
// thirtieth of the window, by default a UTC day. An ongoing series is written once in
// this time instead of in every bucket, and a service with new series all the time has at
// most thirty times. A series counts until the window has passed the whole part.
func (e *Evaluator) seriesTime(b delta.Bucket) delta.Bucket {
	step := e.cfg.Step
	window := time.Duration(e.in.Arrival - e.in.Start)
	steps := max(1, int64(window/step)/seriesTimes)
	part := time.Duration(steps) * step
	return delta.BucketOf(uint64(b)*uint64(time.Second), part) + delta.Bucket((part-step)/time.Second)
}

// notePoint adds the current data point to the active series of its service, and its
// attribute values to the values of the metric in the hour (MET-001). attributes is a
// process-local hash of its attributes.
//
// A series is a timeseries of the metrics data model: the resource with all its
// attributes, the scope, the metric with its unit and type, and the attributes of the
// data point. Each set is independent of order. Description and value are not part of it.
// Source: https://opentelemetry.io/docs/specs/otel/metrics/data-model/#timeseries-model
//
// A histogram's data point is one series here. Prometheus stores it as one for each
// bucket and two more. The configuration of Prometheus determines which resource
// attributes become labels; all of them distinguish instances of a service.
func (e *Evaluator) notePoint(x *metric, attributes, t uint64) {
	const hour = uint64(time.Hour)
	s, hours := e.service, t/hour
	when := hours + uint64(s.bucket)<<20
	seen := delta.Mix(e.stream+attributes, when)
	if e.has(seen) {
		return // and all its values
	}
	e.steps += stepsPerFact
	base := delta.Mix(delta.Mix(s.hash, x.nameHash), when)
	set := uint64(0)
	list := e.point.Attributes
	for m, ok := list.Next(); ok; m, ok = list.Next() {
		var kv wire.KeyValue
		if kv.Decode(m) != nil {
			continue // attributeList has rejected it
		}
		if e.spend(stepsPerHashed+uint64(len(m.Bytes))/bytesPerStep) != nil {
			return
		}
		key, value := e.hashAttribute(&kv)
		set += hashPair(key, value, &kv)
		e.attributeValue(x, &kv, key, value, base, t)
	}
	e.steps += list.Passed()
	before := s.Series.Held()
	if e.seriesBase == 0 {
		e.seriesBase = e.hashMetric()
	}
	s.Series.Add(delta.Mix(e.seriesBase, set), e.seriesTime(s.bucket))
	e.batch.series += s.Series.Held() - before
	e.remember(seen)
}

// hashMetric returns a stable hash of the parts that all series of the current metric
// share.
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

// hashResource returns a stable hash of the current resource.
func (e *Evaluator) hashResource() uint64 {
	var r wire.Resource
	if r.Decode(e.entry.Resource) != nil {
		return 0 // decideResource has rejected it
	}
	return e.hashAttributes(r.Attributes)
}

// hashScope returns a stable hash of the current scope.
func (e *Evaluator) hashScope() uint64 {
	var s wire.Scope
	if s.Decode(e.scope.Scope) != nil {
		return 0 // scopeVerdict has rejected it
	}
	set := e.hashAttributes(s.Attributes)
	e.valueBuf = append(binary.AppendUvarint(e.valueBuf[:0], uint64(len(s.Name))), s.Name...)
	return delta.Mix(e.in.HashKey.Sum64(delta.DomainScope, append(e.valueBuf, s.Version...)), set)
}

// hashAttributes returns a stable hash of a list of attributes, independent of order.
func (e *Evaluator) hashAttributes(list wire.Repeated) uint64 {
	set := uint64(0)
	for m, ok := list.Next(); ok; m, ok = list.Next() {
		if e.spend(stepsPerHashed+uint64(len(m.Bytes))/bytesPerStep) != nil {
			break
		}
		var kv wire.KeyValue
		if kv.Decode(m) == nil {
			key, value := e.hashAttribute(&kv)
			set += hashPair(key, value, &kv)
		}
	}
	e.steps += list.Passed()
	return set
}

// hashAttribute returns stable hashes of an attribute's key and of its value's string
// form, which it leaves in e.valueBuf.
func (e *Evaluator) hashAttribute(kv *wire.KeyValue) (key, value uint64) {
	e.valueBuf = appendValue(e.valueBuf[:0], &kv.Value)
	return e.in.HashKey.Sum64(delta.DomainAttributeKey, kv.Key), e.in.HashKey.Sum64(delta.DomainAttributeValue, e.valueBuf)
}

// hashPair combines the hashes of an attribute's key and value. The sum over a list of
// attributes is independent of order.
func hashPair(key, value uint64, kv *wire.KeyValue) uint64 {
	return delta.Mix(key, value+uint64(kv.Value.Kind))
}
