// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"fmt"

	"assay/internal/rules/catalog"
)

// shownType is an insight type as it is shown, and the same as JSON.
type shownType struct {
	InsightType
	json []byte
}

// shownTypes has every insight type of the catalog by name. Their texts are most of
// a page of insights, and always the same.
var shownTypes = showTypes()

func showTypes() map[string]*shownType {
	all := make(map[string]*shownType, catalog.Count)
	for _, r := range catalog.All() {
		i := r.Info()
		t := &shownType{InsightType: InsightType{
			ID: r.TypeID(), Name: i.Name, DisplayName: i.DisplayName,
			Description: i.Description + "\n\n" + i.Rationale, Impact: string(i.Impact), SignalType: string(i.Signal),
			RuleID: i.ID, Remediation: i.Remediation,
			CreatedAt: Time(catalog.CatalogDate), UpdatedAt: Time(catalog.CatalogDate),
		}}
		var b bytes.Buffer
		if err := encodeAny(&b, t.InsightType); err != nil {
			panic(fmt.Sprintf("rest: insight type %s: %v", i.Name, err))
		}
		t.json = b.Bytes()
		all[i.Name] = t
	}
	return all
}

// encode appends the insight as JSON, with the bytes of its type as they are known.
func (i *Insight) encode(b *bytes.Buffer) error {
	known := shownTypes[i.InsightType.Name]
	if known == nil || known.InsightType != i.InsightType {
		return encodeAny(b, i)
	}
	type fields Insight // without this method
	err := encodeAny(b, struct {
		*fields
		InsightType *InsightType `json:"insight_type,omitempty"` // hides the other, which comes last
	}{fields: (*fields)(i)})
	if err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the brace
	b.WriteString(`,"insight_type":`)
	b.Write(known.json)
	b.WriteByte('}')
	return nil
}

func encodeInsights(b *bytes.Buffer, list []Insight) error {
	b.WriteByte('[')
	for i := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := list[i].encode(b); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}
