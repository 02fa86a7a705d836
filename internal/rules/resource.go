// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"assay"
	"assay/internal/delta"
	"assay/internal/rules/catalog"
	"assay/internal/rules/runtimes"
	"assay/internal/trace"
	"assay/internal/wire"
)

// resource holds the results that depend only on resource attributes.
type resource struct {
	id         uint64 // process-local hash of the organization and the encoded resource
	trace      *trace.Resource
	production bool // LOG-001 applies
	web        bool // the SDK runs in a browser: SPA-004 does not apply

	observed, failed ruleSet // by the rules of every signal
	metricsFailed    bool    // MET-007

	series       uint64 // stable hash of all attributes, independent of order, if seriesHashed
	seriesHashed bool
	instance     delta.Hash128 // RES-002: stable hash of service name, instance id and workload kind; zero: does not apply
	workload     uint64        // stable hash of the workload

	evidence []resourceItem
}

// resourceItem is one piece of evidence of a resource.
type resourceItem struct {
	rule catalog.Rule
	list delta.List
	text string
}

// ruleSet is a set of rules.
type ruleSet uint64

func (s *ruleSet) add(r catalog.Rule)     { *s |= 1 << r }
func (s ruleSet) has(r catalog.Rule) bool { return s&(1<<r) != 0 }

// maxCachedResource is the maximum size of a cached resource.
const maxCachedResource = 64 << 10

// maxPartBytes limits the parts of a service's key.
const maxPartBytes = 1024

// resourceKey identifies an encoded resource of an organization by process-local hashes.
type resourceKey struct{ organization, resource uint64 }

// size estimates the memory of a resource in bytes.
func (r *resource) size() int {
	k := &r.trace.Service
	n := 1024 + len(r.trace.Attributes) + len(k.Namespace) + len(k.Name) + len(k.Environment) + len(k.Version)
	for i := range r.evidence {
		n += 64 + len(r.evidence[i].text)
	}
	return n
}

// resourceOf returns the results for an encoded resource.
func (e *Evaluator) resourceOf(m wire.Message) (*resource, error) {
	key := resourceKey{delta.HashString(e.in.OrganizationID), hashBytes(m.Bytes)}
	if r := e.resources[key]; r != nil {
		return r, nil
	}
	r, err := e.decideResource(m)
	if err != nil {
		return nil, err
	}
	if err := e.spend(0); err != nil {
		return nil, err
	}
	r.id = delta.Mix(key.organization, key.resource)
	if len(m.Bytes) <= maxCachedResource {
		e.resourcesSize += r.size()
		if len(e.resources) >= maxResources || e.resourcesSize > maxResourceBytes {
			clear(e.resources)
			e.resourcesSize = r.size()
		}
		e.resources[key] = r
	}
	return r, nil
}

// attributes are the resource attributes that rules read, by key. The first of duplicate
// keys counts, as in pdata.
type attributes map[string]wire.Value

var wanted = func() map[string]bool {
	m := make(map[string]bool)
	for _, k := range []string{
		"service.name", "service.namespace", "service.version", "service.instance.id", "service.criticality",
		"deployment.environment.name", "deployment.environment",
		"k8s.pod.name", "k8s.namespace.name", "k8s.pod.uid", "container.id", "host.id", "host.name",
		"telemetry.sdk.language", "telemetry.sdk.version", "process.runtime.version",
	} {
		m[k] = true
	}
	for _, k := range discouraged {
		m[k] = true
	}
	return m
}()

// discouraged are the resource attributes that metrics should not have according to
// MET-007.
var discouraged = []string{
	"host.ip", "host.mac", "process.command_args", "process.command_line", "process.runtime.description", "os.description",
}

// present reports whether the key has a value other than an empty string.
func (a attributes) present(key string) bool {
	v, ok := a[key]
	return ok && v.Kind != wire.KindEmpty && (v.Kind != wire.KindString || len(v.Bytes) > 0)
}

// string returns a string value, nil for any other kind.
func (a attributes) string(key string) []byte {
	if v := a[key]; v.Kind == wire.KindString {
		return v.Bytes
	}
	return nil
}

// text returns the string form of a value.
func (a attributes) text(key string) string {
	v := a[key]
	return string(appendValue(nil, &v))
}

// part returns a part of a service's key in its stored form.
func (a attributes) part(key string) string {
	b := a.string(key)
	if len(b) > maxPartBytes {
		b = b[:maxPartBytes]
	}
	return truncate(strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\x00", "\uFFFD"), maxPartBytes)
}

// longAttribute is the size up to which decoding an attribute is part of stepsPerDecided.
const longAttribute = 128

func (e *Evaluator) decideResource(m wire.Message) (*resource, error) {
	if err := e.spend(stepsPerResource); err != nil {
		return nil, err
	}
	in := &e.in
	var view wire.Resource
	if err := view.Decode(m); err != nil {
		return nil, err
	}
	refs := view.EntityRefs
	for ref, ok := refs.Next(); ok; ref, ok = refs.Next() {
		var x wire.EntityRef
		if err := e.spend(stepsPerPart); err != nil {
			return nil, err
		}
		if err := x.Decode(ref); err != nil {
			return nil, err
		}
	}
	r := &resource{}
	attrs := e.resourceAttributes
	clear(attrs)
	e.shownResource.reset()
	var object, pod bool
	for am, ok := view.Attributes.Next(); ok; am, ok = view.Attributes.Next() {
		if err := e.spend(stepsPerDecided); err != nil {
			return nil, err
		}
		v, err := e.attribute(am)
		if err != nil {
			return nil, err
		}
		if len(am.Bytes) > longAttribute {
			e.decodedAgain(am)
		}
		var kv wire.KeyValue
		if err := kv.Decode(am); err != nil {
			return nil, err
		}
		if err := e.spend(uint64(kv.Value.Items.Len())); err != nil {
			return nil, err
		}
		if wanted[string(kv.Key)] {
			if _, twice := attrs[string(kv.Key)]; !twice {
				attrs[string(kv.Key)] = kv.Value
			}
		}
		pod = pod || bytes.HasPrefix(kv.Key, []byte("k8s.pod.")) || bytes.HasPrefix(kv.Key, []byte("k8s.container."))
		object = object || namesKubernetesObject(kv.Key)
		if v&misplacedOnResource != 0 && r.fail(catalog.RES004) {
			r.note(catalog.RES004, delta.AttributeKeys, e.shown(kv.Key))
		}
		if v&deprecatedKey != 0 && r.fail(catalog.DeprecatedAttributes) {
			r.note(catalog.DeprecatedAttributes, delta.AttributeKeys, e.shown(kv.Key))
		}
		if v&sensitiveData != 0 && r.fail(catalog.RES010) {
			e.steps += stepsPerFact + uint64(len(am.Bytes))/bytesPerStep
			kind, _ := e.keyValueKind(kv)
			r.note(catalog.RES010, delta.Findings, "resource attribute: "+e.shown(kv.Key)+delta.FindingSeparator+kind.String())
		}
		e.shownResource.add(e, &kv, v)
	}

	if err := e.spend(refs.Passed() + view.Attributes.Passed()); err != nil { // it was not checked completely
		return nil, err
	}
	r.trace = &trace.Resource{Service: serviceKey(attrs), Attributes: e.shownResource.String()}
	r.trace.Hash = delta.ServiceHash(in.OrganizationID, r.trace.Service)
	r.trace.ParentsOnly = r.trace.Service.Overflow()
	environment := r.trace.Service.Environment
	r.production = strings.EqualFold(environment, "production") || strings.EqualFold(environment, "prod")
	r.web = string(attrs.string("telemetry.sdk.language")) == "webjs"
	r.decide(attrs, pod || object && attrs.present("service.name"), in.HashKey)
	return r, nil
}

// serviceKey returns the key of a resource's service.
func serviceKey(attrs attributes) assay.ServiceKey {
	k := assay.ServiceKey{
		Namespace:   attrs.part("service.namespace"),
		Name:        attrs.part("service.name"),
		Environment: attrs.part("deployment.environment.name"),
		Version:     attrs.part("service.version"),
	}
	if k.Environment == "" {
		k.Environment = attrs.part("deployment.environment")
	}
	if k.Name == "" {
		k.Name = assay.UnknownService
	}
	return k
}

// fail records that the resource fails a rule. It reports whether there is room for more
// evidence.
func (r *resource) fail(rule catalog.Rule) bool {
	r.failed.add(rule)
	return len(r.evidence) < 4*delta.MaxItems
}

func (r *resource) note(rule catalog.Rule, list delta.List, text string) {
	r.evidence = append(r.evidence, resourceItem{rule, list, text})
}

// missing records that the resource fails a rule because an attribute is missing.
func (r *resource) missing(rule catalog.Rule, key string) {
	if r.fail(rule) {
		r.note(rule, delta.MissingAttribute, key)
	}
}

// decide evaluates the rules on single attributes. inPod reports whether the resource
// describes a pod or a service that runs in one.
func (r *resource) decide(attrs attributes, inPod bool, key delta.HashKey) {
	for _, rule := range []catalog.Rule{
		catalog.RES001, catalog.RES004, catalog.RES005, catalog.RES007, catalog.RES010, catalog.DeprecatedAttributes,
	} {
		r.observed.add(rule)
	}
	if !attrs.present("service.instance.id") { // RES-001
		r.missing(catalog.RES001, "service.instance.id")
	} else if kind, workload := workloadOf(attrs); kind != "" { // RES-002
		r.observed.add(catalog.RES002)
		// The name and the kind contain no NUL, so the id may.
		r.instance = key.Sum128(delta.DomainInstance, []byte(r.trace.Service.Name+"\x00"+attrs.text("service.instance.id")+"\x00"+kind))
		r.workload = key.Sum64(delta.DomainWorkload, []byte(workload))
	}
	if inPod { // RES-003
		r.observed.add(catalog.RES003)
		if !attrs.present("k8s.pod.uid") {
			r.missing(catalog.RES003, "k8s.pod.uid")
		}
	}
	name := attrs.string("service.name")
	if len(name) == 0 { // RES-005
		r.missing(catalog.RES005, "service.name")
	} else { // default_service_name
		r.observed.add(catalog.DefaultServiceName)
		if s := string(name); s == assay.UnknownService || strings.HasPrefix(s, assay.UnknownService+":") {
			r.failed.add(catalog.DefaultServiceName)
		}
	}
	if attrs.present("service.criticality") { // RES-006
		r.observed.add(catalog.RES006)
		switch string(attrs.string("service.criticality")) {
		case "mission_critical", "high", "medium", "low":
		default:
			r.failed.add(catalog.RES006)
		}
	}
	if len(attrs.string("deployment.environment.name")) == 0 { // RES-007
		r.missing(catalog.RES007, "deployment.environment.name")
	}
	for _, key := range discouraged { // MET-007
		if attrs.present(key) {
			r.metricsFailed = true
			r.note(catalog.MET007, delta.DiscouragedAttributes, key)
		}
	}
	const lang, sdk, runtime = "telemetry.sdk.language", "telemetry.sdk.version", "process.runtime.version"
	if attrs.present(lang) && attrs.present(sdk) && attrs.present(runtime) { // SDK-001
		supported, known := runtimes.Supported(attrs.string(lang), attrs.string(sdk), attrs.string(runtime))
		if known {
			r.observed.add(catalog.SDK001)
			if !supported {
				r.failed.add(catalog.SDK001)
			}
		}
	}
}

// namesKubernetesObject reports whether the key describes an object that, for a service,
// contains a pod. Clusters and nodes also contain services outside of pods.
func namesKubernetesObject(key []byte) bool {
	return bytes.HasPrefix(key, []byte("k8s.")) &&
		!bytes.HasPrefix(key, []byte("k8s.cluster.")) && !bytes.HasPrefix(key, []byte("k8s.node."))
}

// workloadOf returns the workload of a resource (RES-002): the kind and value of the
// first present of some attributes.
func workloadOf(attrs attributes) (kind, workload string) {
	for _, kind := range [...]string{"k8s.pod.name", "k8s.pod.uid", "container.id", "host.id", "host.name"} {
		if !attrs.present(kind) {
			continue
		}
		workload := attrs.text(kind)
		if kind == "k8s.pod.name" && attrs.present("k8s.namespace.name") {
			namespace := attrs.text("k8s.namespace.name")
			workload = strconv.Itoa(len(namespace)) + ":" + namespace + workload
		}
		return kind, workload
	}
	return "", ""
}

// resourceRules counts the resource of the current entry once, at the time of its newest
// record.
func (e *Evaluator) resourceRules() {
	t, ok := e.newest.time, e.newest.time >= e.in.Start
	if !ok {
		return
	}
	r, s := e.resource, e.service
	counts := s.at(e, t)
	if s.overflow {
		return
	}
	for set := uint64(r.observed); set != 0; set &= set - 1 {
		rule := catalog.Rule(bits.TrailingZeros64(set))
		counts[rule].Observed++
		if r.failed.has(rule) {
			counts[rule].Failed++
			s.fail(rule, t, e.newest.traceID[:], r)
		}
	}
	if e.batch.signal == delta.Metrics { // MET-007
		counts[catalog.MET007].Observed++
		if r.metricsFailed {
			counts[catalog.MET007].Failed++
			s.fail(catalog.MET007, t, nil, r)
		}
	}
	e.resourceEvidence()
	if r.instance != (delta.Hash128{}) { // RES-002
		e.instanceClaim(t)
	}
}

// instanceClaim claims an instance for the workload of the current resource, in the hour
// of t (RES-002).
func (e *Evaluator) instanceClaim(t uint64) {
	r, s, hour := e.resource, e.service, t/uint64(time.Hour)
	key := delta.Hash128{High: max(1, delta.Mix(r.instance.High, hour)), Low: delta.Mix(r.instance.Low, hour)}
	c := delta.Claim{Rule: catalog.RES002, Key: key, Value: r.workload}
	h := claimHash(s, c.Rule, key.Low, c.Value)
	if e.has(h) {
		return
	}
	if q := e.cfg.Quota; q != nil {
		instance := max(delta.LocalHash(c), 1)
		ok, isNew := q.AdmitInstance(e.in.OrganizationID, s.Key, hour, instance)
		if isNew {
			e.batch.Admitted = append(e.batch.Admitted, Admission{Service: s.Key, Instance: instance})
		}
		if !ok {
			return
		}
	}
	e.claim(h, c, t, "", "")
}

// resourceEvidence adds the evidence of the current resource, unless all of it is
// committed.
func (e *Evaluator) resourceEvidence() {
	r, s := e.resource, e.service
	if len(r.evidence) == 0 || !e.unnoted(r.id+uint64(e.batch.signal)) {
		return
	}
	h := delta.Mix(delta.Mix(s.hash, uint64(s.bucket)), r.id+uint64(e.batch.signal))
	if e.has(h) {
		return
	}
	e.steps += stepsPerFact * uint64(len(r.evidence))
	for i := range r.evidence {
		if it := &r.evidence[i]; it.rule != catalog.MET007 || e.batch.signal == delta.Metrics {
			e.batch.item(s, it.rule, it.list, it.text)
		}
	}
	e.remember(h)
}

// claim adds a claim of the current service at t and remembers it by hash. If the claim
// is contested, t is the rule's example.
func (e *Evaluator) claim(hash uint64, c delta.Claim, t uint64, key, value string) {
	s := e.service
	before := len(s.Claims)
	s.AddClaim(c, delta.ClaimFact{Last: s.bucket, KeyText: key, ValueText: value})
	e.steps += stepsPerFact
	if len(s.Claims) > before {
		e.batch.facts++
		e.steps += stepsPerNew
	}
	s.fail(c.Rule, t, nil, e.resource)
	e.remember(hash)
}

// claimHash identifies a claim in the filter. key and value are keyed hashes of the
// claim, stable or process-local, or the numbers of LOG-001.
func claimHash(s *service, r catalog.Rule, key, value uint64) uint64 {
	return delta.Mix(delta.Mix(s.hash, uint64(s.bucket)), delta.Mix(key+uint64(r), value))
}

// appendValue appends the string form of a value: the string itself, a number in decimal,
// any other value by its encoded parts.
func appendValue(dst []byte, v *wire.Value) []byte {
	switch v.Kind {
	case wire.KindString, wire.KindBytes:
		return append(dst, v.Bytes...)
	case wire.KindInt:
		return strconv.AppendInt(dst, v.Int, 10)
	case wire.KindDouble:
		return strconv.AppendFloat(dst, v.Double, 'g', -1, 64)
	case wire.KindBool:
		return strconv.AppendBool(dst, v.Bool)
	case wire.KindArray, wire.KindKeyValues:
		items := v.Items
		for m, ok := items.Next(); ok; m, ok = items.Next() {
			dst = strconv.AppendInt(dst, int64(len(m.Bytes)), 10)
			dst = append(append(dst, ':'), m.Bytes...)
		}
	}
	return dst
}
