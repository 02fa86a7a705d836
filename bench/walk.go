// SPDX-License-Identifier: Apache-2.0

package main

import "assay/internal/wire"

// seen counts what a walk over the views of a request met.
type seen struct {
	records    int // spans, metric data points or log records
	attributes int // of records, events, links and exemplars
}

// walk decodes everything in a request that the views know, down to the values of
// attributes.
func walk(signal wire.Signal, body []byte) (n seen, err error) {
	entries, err := wire.Request(body)
	if err != nil {
		return n, err
	}
	var (
		entry    wire.ResourceEntry
		resource wire.Resource
		scoped   wire.ScopeEntry
		scope    wire.Scope
		other    seen
	)
	for m, ok := entries.Next(); ok; m, ok = entries.Next() {
		if err := entry.Decode(m); err != nil {
			return n, err
		}
		if err := resource.Decode(entry.Resource); err != nil {
			return n, err
		}
		if err := other.list(resource.Attributes); err != nil {
			return n, err
		}
		for m, ok := entry.Scopes.Next(); ok; m, ok = entry.Scopes.Next() {
			if err := scoped.Decode(m); err != nil {
				return n, err
			}
			if err := scope.Decode(scoped.Scope); err != nil {
				return n, err
			}
			for m, ok := scoped.Records.Next(); ok; m, ok = scoped.Records.Next() {
				if err := n.record(signal, m); err != nil {
					return n, err
				}
			}
		}
	}
	return n, nil
}

func (n *seen) list(list wire.Repeated) error {
	var kv wire.KeyValue
	for m, ok := list.Next(); ok; m, ok = list.Next() {
		if err := kv.Decode(m); err != nil {
			return err
		}
		n.attributes++
	}
	return nil
}

func (n *seen) record(signal wire.Signal, m wire.Message) error {
	switch signal {
	case wire.Traces:
		return n.span(m)
	case wire.Metrics:
		return n.metric(m)
	default:
		return n.log(m)
	}
}

func (n *seen) span(m wire.Message) error {
	var (
		span  wire.Span
		event wire.SpanEvent
		link  wire.SpanLink
	)
	if err := span.Decode(m); err != nil {
		return err
	}
	n.records++
	for m, ok := span.Events.Next(); ok; m, ok = span.Events.Next() {
		if err := event.Decode(m); err != nil {
			return err
		}
		if err := n.list(event.Attributes); err != nil {
			return err
		}
	}
	for m, ok := span.Links.Next(); ok; m, ok = span.Links.Next() {
		if err := link.Decode(m); err != nil {
			return err
		}
		if err := n.list(link.Attributes); err != nil {
			return err
		}
	}
	return n.list(span.Attributes)
}

func (n *seen) metric(m wire.Message) error {
	var (
		metric   wire.Metric
		point    wire.DataPoint
		exemplar wire.Exemplar
	)
	if err := metric.Decode(m); err != nil {
		return err
	}
	for m, ok := metric.DataPoints.Next(); ok; m, ok = metric.DataPoints.Next() {
		if err := point.Decode(metric.Type, m); err != nil {
			return err
		}
		n.records++
		if err := n.list(point.Attributes); err != nil {
			return err
		}
		for m, ok := point.Exemplars.Next(); ok; m, ok = point.Exemplars.Next() {
			if err := exemplar.Decode(m); err != nil {
				return err
			}
			if err := n.list(exemplar.FilteredAttributes); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *seen) log(m wire.Message) error {
	var (
		record wire.LogRecord
		body   wire.Value
	)
	if err := record.Decode(m); err != nil {
		return err
	}
	if err := body.Decode(record.Body); err != nil {
		return err
	}
	n.records++
	return n.list(record.Attributes)
}
