// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"
	"unicode/utf8"

	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/rules/semconv"
	"assay/internal/rules/sensitive"
	"assay/internal/wire"
)

// Domains separate the hashes of different kinds of bytes in one cache.
const (
	domainText  = 0x9d3f0c6e5b8a1742
	domainScope = 0x51c2e7f4a9360bd8
)

// attribute returns the verdict on an encoded KeyValue.
func (e *Evaluator) attribute(m wire.Message) (verdict, error) {
	return e.hashedAttribute(m, hashBytes(m.Bytes))
}

// hashedAttribute is attribute with a known hash of the bytes.
func (e *Evaluator) hashedAttribute(m wire.Message, h uint64) (verdict, error) {
	if v := e.attributes.get(h); v != 0 {
		return v, nil
	}
	if err := e.spendMiss(len(m.Bytes)); err != nil {
		return 0, err
	}
	if err := wire.ValidateKeyValue(m, e.decoding); err != nil {
		return 0, err
	}
	var kv wire.KeyValue
	if err := kv.Decode(m); err != nil {
		return 0, err
	}
	k := e.key(kv.Key)
	v := k.verdict
	if v&sensitiveData == 0 {
		if kind, _ := e.valueKind(k.under, kv.Key, &kv.Value); kind != sensitive.None {
			v |= sensitiveData
		}
	}
	if err := e.spend(0); err != nil { // the value was not checked completely
		return 0, err
	}
	e.attributes.put(h, v)
	return v, nil
}

// key returns the properties of an attribute key. The result is valid until the next call.
func (e *Evaluator) key(b []byte) *key {
	h := hashBytes(b)
	k := &e.keys[h%uint64(len(e.keys))]
	if k.hash == h && k.verdict != 0 {
		return k
	}
	*k = key{hash: h, verdict: known, under: e.meter.UnderKey(b)}
	e.steps += stepsPerKey + uint64(len(b))/bytesPerStep
	if e.meter.Text(b) != sensitive.None {
		k.verdict |= sensitiveData
	}
	a := semconv.Find(b)
	if a.MisplacedOnRecord() {
		k.verdict |= misplacedOnRecord
	}
	if a.MisplacedOnResource() {
		k.verdict |= misplacedOnResource
	}
	if a.Deprecated {
		k.verdict |= deprecatedKey
	}
	if !e.complete() {
		k.hash = ^h // not for other requests
	}
	return k
}

// text returns the verdict on a name, description or message.
func (e *Evaluator) text(b []byte) verdict {
	if len(b) == 0 {
		return known
	}
	return e.hashedText(b, hashBytes(b))
}

// hashedText is text with a known hash of the bytes.
func (e *Evaluator) hashedText(b []byte, h uint64) verdict {
	h ^= domainText
	v := e.texts.get(h)
	if v == 0 {
		v = known
		e.steps += stepsPerMiss + uint64(len(b))/bytesPerStep
		if e.meter.Text(b) != sensitive.None {
			v |= sensitiveData
		}
		if e.complete() {
			e.texts.put(h, v)
		}
	}
	return v
}

// body returns the verdict on an encoded AnyValue.
func (e *Evaluator) body(m wire.Message) (verdict, error) {
	h := hashBytes(m.Bytes)
	if v := e.texts.get(h); v != 0 {
		return v, nil
	}
	if err := e.spendMiss(len(m.Bytes)); err != nil {
		return 0, err
	}
	if err := wire.ValidateValue(m, e.decoding); err != nil {
		return 0, err
	}
	var value wire.Value
	if err := value.Decode(m); err != nil {
		return 0, err
	}
	v := known
	if kind, _ := e.valueKind(e.meter.UnderKey(nil), nil, &value); kind != sensitive.None {
		v |= sensitiveData
	}
	if err := e.spend(0); err != nil { // the value was not checked completely
		return 0, err
	}
	e.texts.put(h, v)
	return v, nil
}

// keyValueKind searches a validated attribute or map entry for sensitive data: in its
// key, in its value under that key, and in nested values. It returns the kind and the
// innermost key of the finding.
func (e *Evaluator) keyValueKind(kv wire.KeyValue) (sensitive.Kind, []byte) {
	if k := e.meter.Text(kv.Key); k != sensitive.None {
		return k, kv.Key
	}
	return e.valueKind(e.meter.UnderKey(kv.Key), kv.Key, &kv.Value)
}

// valueKind searches a validated value under key for sensitive data. It stops early if
// the request has to end, which the next call of spend reports. Most values are strings,
// which need no copy of the Value.
func (e *Evaluator) valueKind(under sensitive.Under, key []byte, v *wire.Value) (sensitive.Kind, []byte) {
	if v.Kind == wire.KindString {
		return under.Text(v.Bytes), key
	}
	return e.nestedKind(under, key, *v)
}

// nestedKind is valueKind for all kinds of values. Validation has limited the depth of the
// value. A pointer to the value would allocate each item of an array.
func (e *Evaluator) nestedKind(under sensitive.Under, key []byte, v wire.Value) (sensitive.Kind, []byte) {
	switch v.Kind {
	case wire.KindString:
		return under.Text(v.Bytes), key
	case wire.KindInt:
		return under.Integer(v.Int), key
	case wire.KindArray:
		flag := false
		items := v.Items
		for m, ok := items.Next(); ok; m, ok = items.Next() {
			if e.spend(stepsPerValue) != nil {
				break
			}
			if len(m.Bytes) == 0 {
				flag = false
				continue
			}
			var item wire.Value
			if item.Decode(m) != nil {
				break
			}
			isText := item.Kind == wire.KindString
			if flag && isText {
				e.steps += 2 * stepsPerLookup // of the name of the flag
				if k := e.meter.FlagValue(item.Bytes); k != sensitive.None {
					return k, key
				}
			}
			if k, at := e.nestedKind(under, key, item); k != sensitive.None {
				return k, at
			}
			flag = isText && sensitive.Flag(item.Bytes)
		}
		e.steps += items.Passed()
	case wire.KindKeyValues:
		items := v.Items
		for m, ok := items.Next(); ok; m, ok = items.Next() {
			var item wire.KeyValue
			if e.spend(2*stepsPerValue) != nil || item.Decode(m) != nil {
				break
			}
			if k, at := e.keyValueKind(item); k != sensitive.None {
				return k, at
			}
		}
		e.steps += items.Passed()
	}
	return sensitive.None, nil
}

// scopeVerdict computes the verdict on the current scope: e.scopeBits.
func (e *Evaluator) scopeVerdict(m wire.Message) error {
	e.scopeBits, e.scopeID, e.scopeHashed, e.scopeNoted, e.scopeNewest = known, 0, false, false, 0
	if len(m.Bytes) == 0 {
		return nil
	}
	h := hashBytes(m.Bytes) ^ domainScope
	e.scopeID = h
	if v := e.texts.get(h); v != 0 {
		e.scopeBits = v
		return nil
	}
	var s wire.Scope
	if err := s.Decode(m); err != nil {
		return err
	}
	v := e.text(s.Name) | e.text(s.Version)
	for a, ok := s.Attributes.Next(); ok; a, ok = s.Attributes.Next() {
		if err := e.spend(1); err != nil {
			return err
		}
		av, err := e.attribute(a)
		if err != nil {
			return err
		}
		v |= av &^ misplacedOnRecord
	}
	if err := e.spend(s.Attributes.Passed()); err != nil {
		return err
	}
	e.texts.put(h, v)
	e.scopeBits = v
	return nil
}

// scopeFails records that the current scope makes a record at t fail the signal's rule on
// sensitive data. For the first record, it also adds the evidence.
func (e *Evaluator) scopeFails(t uint64) {
	if e.scopeBits&bad == 0 {
		return
	}
	e.scopeNewest = max(e.scopeNewest, t)
	if !e.scopeNoted {
		e.scopeEvidence()
	}
}

// scopeDone ends the current scope. Its evidence counts for the newest bucket in which
// the scope made a record fail.
func (e *Evaluator) scopeDone() {
	if !e.scopeNoted {
		return
	}
	if e.service.at(e, e.scopeNewest); e.service.bucket > e.scopeBucket {
		e.scopeEvidence()
	}
}

// scopeEvidence adds evidence of the sensitive data and deprecated keys in the current
// scope.
func (e *Evaluator) scopeEvidence() {
	e.scopeNoted, e.scopeBucket = true, e.service.bucket
	rule := sensitiveRules[e.batch.signal]
	var s wire.Scope
	if s.Decode(e.scope.Scope) != nil {
		return
	}
	e.decodedAgain(e.scope.Scope)
	e.textEvidence(rule, "scope name", s.Name, e.text(s.Name))
	e.textEvidence(rule, "scope version", s.Version, e.text(s.Version))
	for a, ok := s.Attributes.Next(); ok; a, ok = s.Attributes.Next() {
		if e.spend(1) != nil || e.wanted(rule, e.scopeBits) == 0 {
			return
		}
		if v, err := e.attribute(a); err == nil && v&bad != 0 {
			e.attributeEvidence(rule, "scope attribute", a, v&^misplacedOnRecord)
		}
	}
	e.steps += s.Attributes.Passed()
}

// sensitiveRules are the rules on sensitive data in the records of each signal.
var sensitiveRules = [delta.SignalCount]catalog.Rule{delta.Traces: catalog.SPA006, delta.Metrics: catalog.MET008, delta.Logs: catalog.LOG003}

// textEvidence adds evidence of a bad verdict on a text.
func (e *Evaluator) textEvidence(rule catalog.Rule, where string, text []byte, v verdict) {
	if v&sensitiveData != 0 && !e.service.full(rule, delta.Findings) {
		e.steps += uint64(len(text)) / bytesPerStep
		e.finding(rule, where, nil, e.meter.Text(text))
	}
}

// attributeEvidence adds evidence of the bad verdicts on an attribute: a finding of the
// sensitive rule, a misplaced key, a deprecated key.
func (e *Evaluator) attributeEvidence(rule catalog.Rule, where string, m wire.Message, v verdict) {
	var kv wire.KeyValue
	if v = e.wanted(rule, v); v == 0 || kv.Decode(m) != nil {
		return
	}
	if v&sensitiveData != 0 {
		e.decodedAgain(m)
		kind, _ := e.keyValueKind(kv)
		e.finding(rule, where, kv.Key, kind)
	}
	if v&misplacedOnRecord != 0 {
		e.nameEvidence(catalog.RES004, delta.AttributeKeys, kv.Key)
	}
	if v&deprecatedKey != 0 {
		e.nameEvidence(catalog.DeprecatedAttributes, delta.AttributeKeys, kv.Key)
	}
}

// decodedAgain counts a further decoding of m, whose fields take two bytes at least.
func (e *Evaluator) decodedAgain(m wire.Message) { e.steps += uint64(len(m.Bytes)) / 2 }

// wanted returns the bad verdicts in v whose lists of evidence have room. Sensitive data
// is evidence of rule.
func (e *Evaluator) wanted(rule catalog.Rule, v verdict) verdict {
	s := e.service
	if s.full(rule, delta.Findings) {
		v &^= sensitiveData
	}
	if s.full(catalog.RES004, delta.AttributeKeys) {
		v &^= misplacedOnRecord
	}
	if s.full(catalog.DeprecatedAttributes, delta.AttributeKeys) {
		v &^= deprecatedKey
	}
	return v & bad
}

// nameEvidence adds a name or key to a list of evidence.
func (e *Evaluator) nameEvidence(rule catalog.Rule, list delta.List, name []byte) {
	if s := e.service; len(name) > 0 && !s.full(rule, list) {
		e.steps += stepsPerFact
		e.batch.item(s, rule, list, e.shown(name))
	}
}

// finding adds the place and the kind of sensitive data as evidence.
func (e *Evaluator) finding(rule catalog.Rule, where string, key []byte, kind sensitive.Kind) {
	s := e.service
	e.steps += stepsPerFact
	h := delta.Mix(delta.Mix(s.hash, uint64(s.bucket)), delta.Mix(delta.HashString(where)+uint64(rule)<<8+uint64(kind), hashBytes(key)))
	if e.has(h) { // saves building the text
		s.items[rule][delta.Findings].tried++
		return
	}
	if key != nil {
		where += ": " + e.shown(key)
	}
	e.batch.item(s, rule, delta.Findings, where+delta.FindingSeparator+kind.String())
	e.remember(h)
}

// clean returns text in the form of evidence: without sensitive parts, valid UTF-8, on
// one line, of limited length.
func (e *Evaluator) clean(b []byte) string {
	const look = 4 * delta.MaxItemBytes // limit of the text that is redacted before it is cut
	if len(b) > look {
		// Redact before cutting: the part that is cut off may identify the rest as sensitive.
		e.steps += uint64(len(b)) / bytesPerStep
		if e.meter.Text(b) != sensitive.None || !e.complete() {
			return redacted
		}
		b = b[:look]
	}
	s := e.meter.Clean(b)
	if hasControls(s) {
		s = strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return utf8.RuneError
			}
			return r
		}, s)
	}
	return truncate(s, delta.MaxItemBytes)
}

// hasControls reports whether s has a control character of ASCII.
func hasControls(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return true
		}
	}
	return false
}

// truncate cuts s to at most n bytes at a rune boundary and marks the cut.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const mark = "..."
	cut := n - len(mark)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + mark
}

// nameCache caches the shown form of span and metric names. It is direct-mapped and of
// fixed size.
type nameCache struct {
	entries [1 << 13]struct {
		hash uint64
		name string
	}
}

// shown returns clean(b) from the cache.
func (e *Evaluator) shown(b []byte) string { return e.hashedShown(b, hashBytes(b)) }

// hashedShown is shown with a known hash of the bytes.
func (e *Evaluator) hashedShown(b []byte, h uint64) string {
	entry := &e.names.entries[h%uint64(len(e.names.entries))]
	if entry.hash != h || entry.name == "" {
		e.steps += stepsPerNew/2 + uint64(len(b))/bytesPerStep
		name := e.clean(b)
		if !e.complete() {
			return name
		}
		entry.hash, entry.name = h, name
	}
	return entry.name
}
