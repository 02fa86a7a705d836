// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"assay"
	"assay/internal/lists"
	"assay/internal/rules/catalog"
	"assay/internal/rules/remedy"
	"assay/internal/safetext"
)

// Insight is one finding about one service.
type Insight struct {
	ID                 string         `json:"id"`
	ServiceID          string         `json:"service_id"`
	ServiceName        string         `json:"service_name"`
	ServiceNamespace   string         `json:"service_namespace"`
	ServiceEnvironment string         `json:"service_environment"`
	ServiceVersion     string         `json:"service_version"`
	Status             string         `json:"status"`
	TraceID            string         `json:"trace_id"`
	TelemetryTS        string         `json:"telemetry_ts"`
	DetectedTS         string         `json:"detected_ts"`
	CreatedAt          string         `json:"created_at"`
	UpdatedAt          string         `json:"updated_at"`
	Attributes         map[string]any `json:"attributes"`

	// CodeLocations are the lines behind the insight. Only the answer with one insight has them, to a caller with the
	// scope agent.
	CodeLocations []CodeLocation `json:"code_locations,omitempty"`

	kind string // name of the insight type, which encode writes
}

// CodeLocation is a line of code that leads to an insight.
type CodeLocation struct {
	FindingID    string `json:"finding_id"`
	RepositoryID string `json:"repository_id"`
	Repository   string `json:"repo_full_name"`
	URL          string `json:"repo_url"`
	Commit       string `json:"commit_sha"`
	Check        string `json:"check"`
	Title        string `json:"title"`
	Severity     string `json:"severity"`
	File         string `json:"file"`
	Line         int    `json:"line"`
}

// maxCodeLocations limits the lines of an insight.
const maxCodeLocations = 20

// codeLocations returns the lines behind an insight: the first one of each finding that it confirms.
func (s *server) codeLocations(ctx context.Context, organizationID, insightID string) ([]CodeLocation, error) {
	if s.cfg.Codebase == nil {
		return nil, nil
	}
	findings, _, err := s.cfg.Codebase.Findings(ctx, organizationID, assay.FindingFilter{InsightID: insightID, Limit: maxCodeLocations})
	if err != nil {
		return nil, err
	}
	var all []CodeLocation
	repositories := map[string]*assay.Repository{}
	for _, f := range findings {
		var body struct {
			Title     string `json:"display_title"`
			Locations []struct {
				File string `json:"file"`
				Line int    `json:"line"`
			} `json:"locations"`
		}
		if json.Unmarshal(f.Body, &body) != nil || len(body.Locations) == 0 {
			continue
		}
		r, known := repositories[f.RepositoryID]
		if !known {
			if r, err = s.cfg.Codebase.Repository(ctx, organizationID, f.RepositoryID); err != nil && assay.ErrorCode(err) != assay.CodeNotFound {
				return nil, err
			}
			repositories[f.RepositoryID] = r
		}
		if r == nil { // deleted meanwhile
			continue
		}
		all = append(all, CodeLocation{
			FindingID: f.ID, RepositoryID: f.RepositoryID, Repository: r.FullName, URL: r.URL, Commit: r.ReviewedCommit, Check: f.Check,
			Title: body.Title, Severity: f.Severity, File: body.Locations[0].File, Line: body.Locations[0].Line,
		})
	}
	return all, nil
}

// InsightType describes a kind of insight and its remedy.
type InsightType struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	DisplayName string `json:"display_name"`
	Description string `json:"description"`
	Impact      string `json:"impact"`
	SignalType  string `json:"signal_type"`
	RuleID      string `json:"instrumentation_score_rule_id"`
	Remediation string `json:"remediation_instructions"`
	CreatedAt   string `json:"created_at"`
	UpdatedAt   string `json:"updated_at"`
}

// typeKey identifies an insight type with its remediation in a language.
type typeKey struct{ name, language string }

// knownTypes holds, as JSON, every insight type of the catalog whose remediation is the
// same for all services with a language. These texts are the largest part of a page of
// insights.
var knownTypes = func() map[typeKey][]byte {
	all := make(map[typeKey][]byte)
	for _, r := range catalog.All() {
		if !remedy.Fixed(r.Info(), nil) {
			continue
		}
		for _, language := range append([]string{""}, remedy.Languages...) {
			var b bytes.Buffer
			writeCatalogType(&b, r, remedy.In(r.Info(), language))
			all[typeKey{r.Info().Name, language}] = b.Bytes()
		}
	}
	return all
}()

func writeCatalogType(b *bytes.Buffer, r catalog.Rule, remediation string) {
	i := r.Info()
	writeType(b, &InsightType{
		ID: r.TypeID(), Name: i.Name, DisplayName: i.DisplayName,
		Description: i.Description + "\n\n" + i.Rationale, Impact: string(i.Impact), SignalType: string(i.Signal),
		RuleID: i.ID, Remediation: remediation,
	})
}

// writeType writes a type as JSON, with the same timestamps for all types.
func writeType(b *bytes.Buffer, t *InsightType) {
	t.CreatedAt, t.UpdatedAt = timestamp(catalog.CatalogDate), timestamp(catalog.CatalogDate)
	_ = safetext.EncodeJSON(b, t, "") // strings: cannot fail
}

// writeInsightType writes an insight type as JSON, with the remediation for an insight.
func writeInsightType(b *bytes.Buffer, name string, attributes map[string]any) {
	r, ok := catalog.ByInsightType(name)
	switch {
	case !ok:
		// During an upgrade, a newer replica may write a type that this one does not know. Show
		// its known fields, since the count of the list includes it.
		writeType(b, &InsightType{
			ID: uuid.Nil.String(), Name: name, DisplayName: name,
			Impact: string(assay.ImpactLow), SignalType: string(assay.SignalTrace),
		})
	case remedy.Fixed(r.Info(), attributes):
		b.Write(knownTypes[typeKey{name, remedy.LanguageOf(attributes)}])
	default:
		writeCatalogType(b, r, remedy.For(r.Info(), attributes))
	}
}

func showInsight(i *assay.Insight) Insight {
	out := Insight{
		ID: i.ID, ServiceID: i.Service.ID,
		ServiceName: i.Service.Name, ServiceNamespace: i.Service.Namespace,
		ServiceEnvironment: i.Service.Environment, ServiceVersion: i.Service.Version,
		Status: string(i.Status), TraceID: i.TraceID,
		TelemetryTS: timestamp(i.TelemetryAt), DetectedTS: timestamp(i.DetectedAt),
		CreatedAt: timestamp(i.CreatedAt), UpdatedAt: timestamp(i.UpdatedAt),
		Attributes: i.Attributes, kind: i.Type,
	}
	if out.Attributes == nil {
		out.Attributes = map[string]any{}
	}
	return out
}

// encode writes the insight with its type. It makes the text of the type, which is the most work for a page: encoding
// takes a turn at the CPU.
func (i *Insight) encode(b *bytes.Buffer) error {
	if err := safetext.EncodeJSON(b, i, ""); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the closing brace
	b.WriteString(`,"insight_type":`)
	writeInsightType(b, i.kind, i.Attributes)
	return b.WriteByte('}')
}

// contradict adds the contradictions between two parameters to details.
func contradict(p params, details map[string]string) {
	from, to := param[time.Time](p, "date_from"), param[time.Time](p, "date_to")
	if !from.IsZero() && !to.IsZero() && from.After(to) {
		details["date_from"] = "must not be after date_to"
	}
}

// filter converts the parameters of list-insights to a filter. It clamps times to the
// range of every store, which contains the creation of all insights. It rounds bounds
// inwards to microseconds, the precision of the store.
func filter(c *call) assay.InsightFilter {
	sort := param[string](c.params, "sort")
	f := assay.InsightFilter{
		OrganizationID: c.Principal.OrganizationID,
		ServiceID:      param[string](c.params, "service_id"),
		Statuses:       listParam[assay.InsightStatus](c.params, "status"),
		Signal:         assay.Signal(param[string](c.params, "signal_type")),
		Impacts:        listParam[assay.Impact](c.params, "impact"),
		Sort:           assay.InsightSort(strings.TrimLeft(sort, "+-")), Descending: strings.HasPrefix(sort, "-"),
		Page: c.page(),
	}
	if from := param[time.Time](c.params, "date_from"); !from.IsZero() {
		f.CreatedFrom = clamp(from.Add(time.Microsecond - time.Nanosecond).Truncate(time.Microsecond))
	}
	if to := param[time.Time](c.params, "date_to"); !to.IsZero() {
		f.CreatedTo = clamp(to.Truncate(time.Microsecond))
	}
	return f
}

var (
	earliest = time.Unix(0, 0).UTC()
	latest   = time.Date(2200, time.January, 1, 0, 0, 0, 0, time.UTC)
)

func clamp(t time.Time) time.Time {
	switch {
	case t.Before(earliest):
		return earliest
	case t.After(latest):
		return latest
	default:
		return t.UTC()
	}
}

func (s *server) insights() {
	handleList(s, "list-service-insights", route{scope: assay.ScopeRead, unknown: assay.CodeServiceNotFound}, func(ctx context.Context, c *call) ([]Insight, int, error) {
		id := param[string](c.params, "id")
		if _, err := s.cfg.Services.FindServiceByID(ctx, c.Principal.OrganizationID, id); err != nil {
			return nil, 0, err
		}
		return s.findInsights(ctx, assay.InsightFilter{
			OrganizationID: c.Principal.OrganizationID, ServiceID: id, Statuses: listParam[assay.InsightStatus](c.params, "status"),
			Sort: assay.SortCreatedAt, Descending: true, Page: c.page(),
		})
	})

	handleList(s, "list-insights", route{scope: assay.ScopeRead, validate: contradict}, func(ctx context.Context, c *call) ([]Insight, int, error) {
		return s.findInsights(ctx, filter(c))
	})

	handle(s, "get-insight", route{scope: assay.ScopeRead}, func(ctx context.Context, c *call) (Insight, error) {
		found, err := s.cfg.Insights.FindInsightByID(ctx, c.Principal.OrganizationID, param[string](c.params, "id"))
		if err != nil {
			return Insight{}, err
		}
		out := showInsight(found)
		if c.Principal.Allows(assay.ScopeAgent) { // as for the findings and repositories that the locations are of
			out.CodeLocations, err = s.codeLocations(ctx, c.Principal.OrganizationID, found.ID)
		}
		return out, err
	})
}

func (s *server) findInsights(ctx context.Context, f assay.InsightFilter) ([]Insight, int, error) {
	found, total, err := s.cfg.Insights.FindInsights(ctx, f)
	return lists.Map(found, showInsight), total, err
}
