// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"time"

	"github.com/google/uuid"

	"assay"
)

// Impact is the weight of a rule: Critical 40, Important 30, Normal 20, Low 10.
type Impact = assay.Impact

// Signal is the group an insight type belongs to: trace, metric or log.
type Signal = assay.Signal

// CatalogDate is the date of the last change to the texts and criteria of this catalog.
// The REST API shows it as created_at and updated_at of every insight type.
var CatalogDate = time.Date(2026, time.November, 27, 0, 0, 0, 0, time.UTC)

// typeNamespace is the UUID namespace of the insight types. A change would change the id
// of every type, which clients may have stored.
var typeNamespace = uuid.UUID{0x10, 0xaf, 0xa5, 0x0a, 0x21, 0x63, 0x49, 0x0d, 0x82, 0x00, 0x3e, 0x50, 0x64, 0x38, 0x74, 0xa0}

// Rule is the dense index of a rule or insight type, at least 0 and less than Count. It
// is valid within one build only: store or show the id or the name instead.
type Rule uint8

// The rules, in the order of their ids, then the insight types without one, by name.
const (
	LOG001 Rule = iota
	LOG002
	LOG003
	MET001
	MET002
	MET003
	MET004
	MET005
	MET006
	MET007
	MET008
	RES001
	RES002
	RES003
	RES004
	RES005
	RES006
	RES007
	RES010
	SDK001
	SPA001
	SPA002
	SPA003
	SPA004
	SPA005
	SPA006
	DefaultServiceName
	DeprecatedAttributes
	QuotaExceeded
)

const (
	// Scored is the number of rules that enter a score: those below this index.
	Scored = 26
	// Count is the number of insight types.
	Count = 29
)

// Info describes a rule or insight type. It is shared and must not be changed.
type Info struct {
	ID          string // rule id, "" for an insight type that never enters a score
	Name        string // insight type name, stable
	DisplayName string
	Impact      Impact
	Signal      Signal
	Target      string // subject of the rule, as in the specification's rule table
	Applies     string // which observations count
	Criterion   string // when an observation fails, exact

	// The other fields are Markdown for the developer of the service.
	Description string   // the problem
	Rationale   string   // its consequences
	Remediation string   // the fix in the SDK and in the Collector
	Choices     []string // decisions where the specification is open, may be empty
}

// infos, typeIDs, byID and byName are read-only after initialization.
var (
	infos   = load()
	typeIDs = makeTypeIDs()
	byID    = index(func(i *Info) string { return i.ID })
	byName  = index(func(i *Info) string { return i.Name })
)

// ID returns the rule id, such as "RES-001". It returns "" for an insight type that never
// enters a score, or an index out of range.
func (r Rule) ID() string {
	if r >= Count {
		return ""
	}
	return infos[r].ID
}

// Info returns the entry of r, nil only for an index out of range.
func (r Rule) Info() *Info {
	if r >= Count {
		return nil
	}
	return infos[r]
}

// TypeID returns the UUID of the insight type, the same in every installation,
// and "" for an index out of range.
func (r Rule) TypeID() string {
	if r >= Count {
		return ""
	}
	return typeIDs[r]
}

// All returns every rule and insight type in index order, as a new slice.
func All() []Rule {
	all := make([]Rule, Count)
	for i := range all {
		all[i] = Rule(i)
	}
	return all
}

// ByID finds a scored rule by its id.
func ByID(id string) (Rule, bool) {
	r, ok := byID[id]
	return r, ok
}

// ByInsightType finds a rule or insight type by the insight type's name.
func ByInsightType(name string) (Rule, bool) {
	r, ok := byName[name]
	return r, ok
}

func makeTypeIDs() (ids [Count]string) {
	for r := range ids {
		ids[r] = uuid.NewSHA1(typeNamespace, []byte(infos[r].Name)).String()
	}
	return ids
}

// index maps a key of the entries to their rules. It leaves out empty keys.
func index(key func(*Info) string) map[string]Rule {
	m := make(map[string]Rule, Count)
	for r, info := range infos {
		if k := key(info); k != "" {
			m[k] = Rule(r)
		}
	}
	return m
}
