// SPDX-License-Identifier: Apache-2.0

package wire

import "math"

var (
	metricNames = names{
		0: "Metric", 1: "name", 2: "description", 3: "unit", 5: "gauge", 7: "sum", 9: "histogram",
		10: "exponential_histogram", 11: "summary", 12: "metadata",
	}
	gaugeNames                = names{0: "Gauge", 1: "data_points"}
	sumNames                  = names{0: "Sum", 1: "data_points", 2: "aggregation_temporality", 3: "is_monotonic"}
	histogramNames            = names{0: "Histogram", 1: "data_points", 2: "aggregation_temporality"}
	exponentialHistogramNames = names{0: "ExponentialHistogram", 1: "data_points", 2: "aggregation_temporality"}
	summaryNames              = names{0: "Summary", 1: "data_points"}
	numberPointNames          = names{
		0: "NumberDataPoint", 2: "start_time_unix_nano", 3: "time_unix_nano", 4: "as_double", 5: "exemplars",
		6: "as_int", 7: "attributes", 8: "flags",
	}
	histogramPointNames = names{
		0: "HistogramDataPoint", 2: "start_time_unix_nano", 3: "time_unix_nano", 4: "count", 5: "sum", 6: "bucket_counts",
		7: "explicit_bounds", 8: "exemplars", 9: "attributes", 10: "flags", 11: "min", 12: "max",
	}
	exponentialPointNames = names{
		0: "ExponentialHistogramDataPoint", 1: "attributes", 2: "start_time_unix_nano", 3: "time_unix_nano", 4: "count",
		5: "sum", 6: "scale", 7: "zero_count", 8: "positive", 9: "negative", 10: "flags", 11: "exemplars", 12: "min",
		13: "max", 14: "zero_threshold",
	}
	summaryPointNames = names{
		0: "SummaryDataPoint", 2: "start_time_unix_nano", 3: "time_unix_nano", 4: "count", 5: "sum", 6: "quantile_values",
		7: "attributes", 8: "flags",
	}
	bucketNames   = names{0: "ExponentialHistogramDataPoint.Buckets", 1: "offset", 2: "bucket_counts"}
	quantileNames = names{0: "SummaryDataPoint.ValueAtQuantile", 1: "quantile", 2: "value"}
	exemplarNames = names{
		0: "Exemplar", 2: "time_unix_nano", 3: "as_double", 4: "span_id", 5: "trace_id", 6: "as_int",
		7: "filtered_attributes",
	}
)

// badPacked is the reason for a packed field that ends within a value.
const badPacked = "packed field does not hold a whole number of values"

// Metric is one metric with its data decoded down to the list of data points.
type Metric struct {
	Name                   []byte // field 1
	Description            []byte // field 2
	Unit                   []byte // field 3
	Type                   MetricType
	IsMonotonic            bool     // sum only
	AggregationTemporality int32    // sums and histograms: 1 delta, 2 cumulative, 0 absent
	DataPoints             Repeated // decode with DataPoint.Decode
	Metadata               Repeated // field 12; decode with KeyValue.Decode
}

// Decode reads the metric from m. If m has several data members, which violates the protocol, Decode uses the last
// one, as pdata does, and ignores the others.
func (x *Metric) Decode(m Message) error {
	*x = Metric{}
	b := m.Bytes
	var metadata run
	var data Message
	for i := 0; i < len(b); {
		tag, v, end := field(b, i)
		switch tag {
		case 1<<3 | typeLen:
			x.Name = b[v:end:end]
		case 2<<3 | typeLen:
			x.Description = b[v:end:end]
		case 3<<3 | typeLen:
			x.Unit = b[v:end:end]
		case 5<<3 | typeLen:
			x.Type, data = MetricGauge, m.sub(v, end)
		case 7<<3 | typeLen:
			x.Type, data = MetricSum, m.sub(v, end)
		case 9<<3 | typeLen:
			x.Type, data = MetricHistogram, m.sub(v, end)
		case 10<<3 | typeLen:
			x.Type, data = MetricExponentialHistogram, m.sub(v, end)
		case 11<<3 | typeLen:
			x.Type, data = MetricSummary, m.sub(v, end)
		case 12<<3 | typeLen:
			metadata = metadata.add(i, end)
		default:
			if err := m.fail(i, tag, metricNames); err != nil {
				return err
			}
		}
		i = end
	}
	x.Metadata = metadata.repeated(m, 12)
	return x.data(data)
}

// data reads a Gauge, Sum, Histogram, ExponentialHistogram or Summary. The five types use the same field numbers.
func (x *Metric) data(m Message) error {
	var n names
	switch x.Type {
	case MetricGauge:
		n = gaugeNames
	case MetricSum:
		n = sumNames
	case MetricHistogram:
		n = histogramNames
	case MetricExponentialHistogram:
		n = exponentialHistogramNames
	case MetricSummary:
		n = summaryNames
	}
	b := m.Bytes
	var points run
	for i := 0; i < len(b); {
		tag, v, end := field(b, i)
		switch {
		case tag == 1<<3|typeLen:
			points, end = points.extend(b, i, end)
		case tag == 2<<3|typeVarint && len(n) > 2:
			x.AggregationTemporality = int32(v)
		case tag == 3<<3|typeVarint && len(n) > 3:
			x.IsMonotonic = v != 0
		default:
			if err := m.fail(i, tag, n); err != nil {
				return err
			}
		}
		i = end
	}
	x.DataPoints = points.repeated(m, 1)
	return nil
}

// DataPoint is a data point of any metric type. Each field names the types that have it and is zero for the others.
// Times are nanoseconds since the Unix epoch, zero when absent.
type DataPoint struct {
	Attributes        Repeated // decode with KeyValue.Decode
	Exemplars         Repeated // all but summaries; decode with Exemplar.Decode
	StartTimeUnixNano uint64
	TimeUnixNano      uint64
	Flags             uint32 // bit 0: no recorded value

	NumberKind ValueKind // gauge, sum: KindInt, KindDouble, or KindEmpty when there is no value
	Int        int64     // gauge, sum: the value if NumberKind is KindInt
	Double     float64   // gauge, sum: the value if NumberKind is KindDouble

	Count  uint64  // histograms and summary
	Sum    float64 // histograms and summary
	Min    float64 // histograms
	Max    float64 // histograms
	HasSum bool    // histograms and summary: sum was sent
	HasMin bool    // histograms: min was sent
	HasMax bool    // histograms: max was sent

	ExplicitBounds Doubles // histogram
	BucketCounts   Counts  // histogram

	Scale         int32   // exponential histogram
	ZeroCount     uint64  // exponential histogram
	ZeroThreshold float64 // exponential histogram
	Positive      Message // exponential histogram; decode with Buckets.Decode; empty when absent
	Negative      Message // exponential histogram; decode with Buckets.Decode; empty when absent

	Quantiles Repeated // summary; decode with Quantile.Decode
}

// Decode reads the data point of a metric of type t from m. For MetricEmpty, which has no data points, it sets the
// zero value.
func (p *DataPoint) Decode(t MetricType, m Message) error {
	*p = DataPoint{}
	switch t {
	case MetricGauge, MetricSum:
		return p.decodeNumber(m)
	case MetricHistogram:
		return p.decodeHistogram(m)
	case MetricExponentialHistogram:
		return p.decodeExponentialHistogram(m)
	case MetricSummary:
		return p.decodeSummary(m)
	}
	return nil
}

func (p *DataPoint) decodeNumber(m Message) error {
	b := m.Bytes
	var attributes, exemplars run
	for i := 0; i < len(b); {
		tag, v, end := field(b, i)
		switch tag {
		case 2<<3 | typeFixed64:
			p.StartTimeUnixNano = v
		case 3<<3 | typeFixed64:
			p.TimeUnixNano = v
		case 4<<3 | typeFixed64:
			p.NumberKind, p.Int, p.Double = KindDouble, 0, math.Float64frombits(v)
		case 5<<3 | typeLen:
			exemplars, end = exemplars.extend(b, i, end)
		case 6<<3 | typeFixed64:
			p.NumberKind, p.Int, p.Double = KindInt, int64(v), 0
		case 7<<3 | typeLen:
			attributes, end = attributes.extend(b, i, end)
		case 8<<3 | typeVarint:
			p.Flags = uint32(v)
		default:
			if err := m.fail(i, tag, numberPointNames); err != nil {
				return err
			}
		}
		i = end
	}
	p.Attributes = attributes.repeated(m, 7)
	p.Exemplars = exemplars.repeated(m, 5)
	return nil
}

func (p *DataPoint) decodeHistogram(m Message) error {
	b := m.Bytes
	var attributes, exemplars run
	var bounds, counts numbers
	for i := 0; i < len(b); {
		tag, v, end := field(b, i)
		switch tag {
		case 2<<3 | typeFixed64:
			p.StartTimeUnixNano = v
		case 3<<3 | typeFixed64:
			p.TimeUnixNano = v
		case 4<<3 | typeFixed64:
			p.Count = v
		case 5<<3 | typeFixed64:
			p.HasSum, p.Sum = true, math.Float64frombits(v)
		case 6<<3 | typeLen, 6<<3 | typeFixed64:
			if !counts.add(b, i, tag, v, end, typeFixed64) {
				return m.reject(i, 6, histogramPointNames, badPacked)
			}
		case 7<<3 | typeLen, 7<<3 | typeFixed64:
			if !bounds.add(b, i, tag, v, end, typeFixed64) {
				return m.reject(i, 7, histogramPointNames, badPacked)
			}
		case 8<<3 | typeLen:
			exemplars, end = exemplars.extend(b, i, end)
		case 9<<3 | typeLen:
			attributes, end = attributes.extend(b, i, end)
		case 10<<3 | typeVarint:
			p.Flags = uint32(v)
		case 11<<3 | typeFixed64:
			p.HasMin, p.Min = true, math.Float64frombits(v)
		case 12<<3 | typeFixed64:
			p.HasMax, p.Max = true, math.Float64frombits(v)
		default:
			if err := m.fail(i, tag, histogramPointNames); err != nil {
				return err
			}
		}
		i = end
	}
	p.Attributes = attributes.repeated(m, 9)
	p.Exemplars = exemplars.repeated(m, 8)
	p.BucketCounts = Counts{counts.words(m, 6, typeFixed64)}
	p.ExplicitBounds = Doubles{bounds.words(m, 7, typeFixed64)}
	return nil
}

func (p *DataPoint) decodeExponentialHistogram(m Message) error {
	b := m.Bytes
	var attributes, exemplars run
	for i := 0; i < len(b); {
		tag, v, end := field(b, i)
		switch tag {
		case 1<<3 | typeLen:
			attributes, end = attributes.extend(b, i, end)
		case 2<<3 | typeFixed64:
			p.StartTimeUnixNano = v
		case 3<<3 | typeFixed64:
			p.TimeUnixNano = v
		case 4<<3 | typeFixed64:
			p.Count = v
		case 5<<3 | typeFixed64:
			p.HasSum, p.Sum = true, math.Float64frombits(v)
		case 6<<3 | typeVarint:
			p.Scale = zigzag(v)
		case 7<<3 | typeFixed64:
			p.ZeroCount = v
		case 8<<3 | typeLen:
			if !p.Positive.merge(m.sub(v, end)) {
				return m.reject(i, 8, exponentialPointNames, inPieces)
			}
		case 9<<3 | typeLen:
			if !p.Negative.merge(m.sub(v, end)) {
				return m.reject(i, 9, exponentialPointNames, inPieces)
			}
		case 10<<3 | typeVarint:
			p.Flags = uint32(v)
		case 11<<3 | typeLen:
			exemplars, end = exemplars.extend(b, i, end)
		case 12<<3 | typeFixed64:
			p.HasMin, p.Min = true, math.Float64frombits(v)
		case 13<<3 | typeFixed64:
			p.HasMax, p.Max = true, math.Float64frombits(v)
		case 14<<3 | typeFixed64:
			p.ZeroThreshold = math.Float64frombits(v)
		default:
			if err := m.fail(i, tag, exponentialPointNames); err != nil {
				return err
			}
		}
		i = end
	}
	p.Attributes = attributes.repeated(m, 1)
	p.Exemplars = exemplars.repeated(m, 11)
	return nil
}

func (p *DataPoint) decodeSummary(m Message) error {
	b := m.Bytes
	var attributes, quantiles run
	for i := 0; i < len(b); {
		tag, v, end := field(b, i)
		switch tag {
		case 2<<3 | typeFixed64:
			p.StartTimeUnixNano = v
		case 3<<3 | typeFixed64:
			p.TimeUnixNano = v
		case 4<<3 | typeFixed64:
			p.Count = v
		case 5<<3 | typeFixed64:
			p.HasSum, p.Sum = true, math.Float64frombits(v)
		case 6<<3 | typeLen:
			quantiles, end = quantiles.extend(b, i, end)
		case 7<<3 | typeLen:
			attributes, end = attributes.extend(b, i, end)
		case 8<<3 | typeVarint:
			p.Flags = uint32(v)
		default:
			if err := m.fail(i, tag, summaryPointNames); err != nil {
				return err
			}
		}
		i = end
	}
	p.Attributes = attributes.repeated(m, 7)
	p.Quantiles = quantiles.repeated(m, 6)
	return nil
}

// zigzag decodes a sint32.
func zigzag(v uint64) int32 {
	return int32(uint32(v)>>1) ^ -int32(v&1)
}

// Buckets holds the positive or negative buckets of an exponential histogram data point.
type Buckets struct {
	Offset int32  // field 1; index of the first bucket
	Counts Counts // field 2
}

// Decode reads the buckets from m.
func (x *Buckets) Decode(m Message) error {
	*x = Buckets{}
	b := m.Bytes
	var counts numbers
	for i := 0; i < len(b); {
		tag, v, end := field(b, i)
		switch tag {
		case 1<<3 | typeVarint:
			x.Offset = zigzag(v)
		case 2<<3 | typeLen, 2<<3 | typeVarint:
			if !counts.add(b, i, tag, v, end, typeVarint) {
				return m.reject(i, 2, bucketNames, badPacked)
			}
		default:
			if err := m.fail(i, tag, bucketNames); err != nil {
				return err
			}
		}
		i = end
	}
	x.Counts = Counts{counts.words(m, 2, typeVarint)}
	return nil
}

// Quantile is one quantile of a summary data point.
type Quantile struct {
	Quantile float64 // field 1; 0 to 1
	Value    float64 // field 2
}

// Decode reads the quantile from m.
func (q *Quantile) Decode(m Message) error {
	*q = Quantile{}
	b := m.Bytes
	for i := 0; i < len(b); {
		tag, v, end := field(b, i)
		switch tag {
		case 1<<3 | typeFixed64:
			q.Quantile = math.Float64frombits(v)
		case 2<<3 | typeFixed64:
			q.Value = math.Float64frombits(v)
		default:
			if err := m.fail(i, tag, quantileNames); err != nil {
				return err
			}
		}
		i = end
	}
	return nil
}

// Exemplar is a raw measurement of a data point, with the span that was active.
type Exemplar struct {
	FilteredAttributes Repeated  // field 7; decode with KeyValue.Decode
	TimeUnixNano       uint64    // field 2; nanoseconds since the Unix epoch
	SpanID             []byte    // field 4; 8 bytes, or nil when absent or all zeros
	TraceID            []byte    // field 5; 16 bytes, or nil when absent or all zeros
	NumberKind         ValueKind // KindInt, KindDouble, or KindEmpty when there is no value
	Int                int64     // the value if NumberKind is KindInt
	Double             float64   // the value if NumberKind is KindDouble
}

// Decode reads the exemplar from m.
func (e *Exemplar) Decode(m Message) error {
	*e = Exemplar{}
	b := m.Bytes
	var attributes run
	for i := 0; i < len(b); {
		tag, v, end := field(b, i)
		var ok bool
		switch tag {
		case 2<<3 | typeFixed64:
			e.TimeUnixNano = v
		case 3<<3 | typeFixed64:
			e.NumberKind, e.Int, e.Double = KindDouble, 0, math.Float64frombits(v)
		case 4<<3 | typeLen:
			if e.SpanID, ok = id(b, v, end, spanIDSize); !ok {
				return m.reject(i, 4, exemplarNames, badSpanID)
			}
		case 5<<3 | typeLen:
			if e.TraceID, ok = id(b, v, end, traceIDSize); !ok {
				return m.reject(i, 5, exemplarNames, badTraceID)
			}
		case 6<<3 | typeFixed64:
			e.NumberKind, e.Int, e.Double = KindInt, int64(v), 0
		case 7<<3 | typeLen:
			attributes, end = attributes.extend(b, i, end)
		default:
			if err := m.fail(i, tag, exemplarNames); err != nil {
				return err
			}
		}
		i = end
	}
	e.FilteredAttributes = attributes.repeated(m, 7)
	return nil
}
