// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"html/template"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"assay/internal/lists"
	"assay/internal/rules/catalog"
	"assay/internal/rules/remedy"

	"github.com/google/uuid"

	"assay"
)

// summaryTimeout is longer than the timeout of a summarizer and shorter than the write timeout.
const summaryTimeout = 50 * time.Second

const maxReason = 500 // UTF-16 code units of the reason of a mute, as browsers count

// CachedSummaries is implemented by summarizers with a cache. Implementations must be safe for concurrent use.
type CachedSummaries interface {
	// CachedSummary returns the result of Summarize if it needs no call to the model, else CodeNotFound.
	CachedSummary(ctx context.Context, i *assay.Insight) (*assay.InsightSummary, error)
}

// insightPage is one insight.
type insightPage struct {
	*assay.Insight
	Rule     *ruleText
	Signal   assay.Signal // of the evidence
	Failures *failures
	Evidence []evidence
	Resource []pair
	Advice   template.HTML  // shown before the parts
	Parts    []section      // of the remediation, for this insight
	Code     []agentFinding // behind it

	Summaries      bool // can be written
	Summary        *assay.InsightSummary
	SummaryText    template.HTML
	SummaryProblem string
}

// evidence is a list of names, or a value, that the rule found.
type evidence struct {
	Title string
	Items []item
	Full  bool // there may be more than are listed
}

// item is one piece of evidence.
type item struct{ Text, Kind string }

// pair is an attribute and its value.
type pair struct{ Key, Value string }

func (h *Handler) insight(q *request) error {
	i, err := q.findInsight()
	if err != nil {
		return err
	}
	page := q.insightPage(i)
	if cached, ok := q.cfg.Summaries.(CachedSummaries); ok {
		s, err := cached.CachedSummary(q.ctx, i)
		switch {
		case err == nil:
			page.show(s)
		case assay.ErrorCode(err) != assay.CodeNotFound:
			q.log(slog.LevelWarn, err)
		}
	}
	return q.showInsight(http.StatusOK, page)
}

func (q *request) showInsight(status int, page insightPage) error {
	title := plain(page.Rule.Title) + " in " + plain(page.Service.Name)
	return q.render(status, "insight", view{Title: title, Section: "insights", Live: liveSeconds, Data: page})
}

// findInsight returns the insight that the address names.
func (q *request) findInsight() (*assay.Insight, error) {
	id := q.r.PathValue("id")
	if uuid.Validate(id) != nil {
		return nil, assay.Errorf(assay.CodeInsightNotFound, "no such insight")
	}
	return q.cfg.Insights.FindInsightByID(q.ctx, q.organization(), id)
}

func (q *request) insightPage(i *assay.Insight) insightPage {
	page := insightPage{
		Insight: i, Rule: q.ruleOf(i.Type), Signal: signalOf(i.Attributes), Failures: failuresOf(i), Evidence: evidenceOf(i.Attributes),
		Resource: resourceOf(i.Attributes), Summaries: q.cfg.Summaries != nil,
	}
	if r, ok := catalog.ByInsightType(i.Type); ok {
		page.Advice, page.Parts = sections(remedy.For(r.Info(), i.Attributes))
	}
	page.Code = q.codeBehind(i.ID)
	return page
}

const shownCode = 10 // findings behind an insight

// codeBehind returns the findings behind an insight, for sessions that may see repositories. The page goes without them
// on errors.
func (q *request) codeBehind(insightID string) (all []agentFinding) {
	if q.cfg.Code == nil || !q.hasAgent() {
		return nil
	}
	found, _, err := q.cfg.Code.Findings(q.ctx, q.organization(), assay.FindingFilter{InsightID: insightID, Limit: shownCode})
	if err != nil {
		q.log(slog.LevelWarn, err)
	}
	for _, f := range found {
		shown := agentFinding{ID: f.ID, RepositoryID: f.RepositoryID}
		if err := json.Unmarshal(f.Body, &shown); err == nil {
			all = append(all, shown)
		}
	}
	return all
}

// signalOf returns the signal of the evidence, which differs from that of a rule on
// several signals.
func signalOf(attributes map[string]any) assay.Signal {
	switch attributes["signal_type"] {
	case "METRICS":
		return assay.SignalMetric
	case "LOGS":
		return assay.SignalLog
	default:
		return assay.SignalTrace
	}
}

func (p *insightPage) show(s *assay.InsightSummary) {
	p.Summary, p.SummaryText = s, markdown(s.Content)
}

// evidenceTitles are the titles of lists of evidence, in display order.
var evidenceTitles = []struct{ name, title string }{
	{"findings", "Where it was found"},
	{"missing_attribute", "Missing attributes"},
	{"attribute_keys", "Attributes"},
	{"renamed_to", "Renamed to"},
	{"discouraged_attributes", "Discouraged attributes"},
	{"metric_names", "Metrics"},
	{"units", "Units"},
	{"span_names", "Spans"},
}

// shownElsewhere are the attributes of evidence that have a place of their own.
var shownElsewhere = []string{"signal_type", "resource_attributes", "observations_total", "violations_total"}

// listLimit is how many items a list of evidence has at most.
const listLimit = 20

// evidenceOf returns the evidence of an insight as it is shown.
func evidenceOf(attributes map[string]any) []evidence {
	var all []evidence
	known := slices.Clone(shownElsewhere)
	for _, t := range evidenceTitles {
		known = append(known, t.name)
		text, ok := attributes[t.name].(string)
		if !ok || text == "" {
			continue
		}
		items := itemsOf(text)
		all = append(all, evidence{Title: t.title, Items: items, Full: len(items) >= listLimit})
	}
	for _, key := range slices.Sorted(maps.Keys(attributes)) {
		if slices.Contains(known, key) {
			continue
		}
		all = append(all, evidence{Title: strings.ReplaceAll(key, "_", " "), Items: []item{{Text: valueText(attributes[key])}}})
	}
	return all
}

// itemsOf returns the items of a list: a JSON array of strings or of findings, or
// names with commas between them.
func itemsOf(text string) []item {
	var texts []string
	type finding struct{ Where, Kind string }
	var findings []finding
	switch {
	case json.Unmarshal([]byte(text), &texts) == nil:
	case json.Unmarshal([]byte(text), &findings) == nil:
		return lists.Map(findings, func(f finding) item { return item{Text: f.Where, Kind: f.Kind} })
	default:
		texts = strings.Split(text, ", ")
	}
	return lists.Map(texts, func(t string) item { return item{Text: t} })
}

// resourceOf returns the resource attributes of an insight's example, by key.
func resourceOf(attributes map[string]any) []pair {
	text, _ := attributes["resource_attributes"].(string)
	var resource map[string]any
	if json.Unmarshal([]byte(text), &resource) != nil {
		return nil
	}
	pairs := make([]pair, 0, len(resource))
	for _, key := range slices.Sorted(maps.Keys(resource)) {
		pairs = append(pairs, pair{key, valueText(resource[key])})
	}
	return pairs
}

// valueText returns a value as text: a string as it is, all else as JSON.
func valueText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // what came out of JSON goes back into it
		return none
	}
	return strings.TrimSpace(b.String())
}

// summarize requests a summary and shows it.
func (h *Handler) summarize(q *request) error {
	i, err := q.findInsight()
	if err != nil {
		return err
	}
	if q.cfg.Summaries == nil {
		return assay.Errorf(assay.CodeNotFound, "summaries are not configured")
	}
	ctx, cancel := context.WithTimeout(q.r.Context(), summaryTimeout)
	defer cancel()
	s, err := q.cfg.Summaries.Summarize(ctx, i)
	_, kept := q.cfg.Summaries.(CachedSummaries)
	switch {
	case err == nil && kept:
		return q.redirect("/insights/" + i.ID + "#summary")
	case err != nil && q.r.Context().Err() != nil:
		return nil
	}
	page, status := q.insightPage(i), http.StatusOK
	if err != nil {
		q.log(slog.LevelWarn, err)
		page.SummaryProblem, status = "The summary could not be written now. "+wait(err), http.StatusServiceUnavailable
	} else {
		page.show(s)
	}
	return q.showInsight(status, page)
}

// wait returns the text for the time until a retry.
func wait(err error) string {
	var later interface{ RetryAfter() time.Duration }
	if errors.As(err, &later) && later.RetryAfter() > time.Minute {
		return "Try again in " + spanText(later.RetryAfter()) + "."
	}
	return "Try again in a moment."
}

// mute mutes an insight with a reason.
func (h *Handler) mute(q *request) error {
	i, err := q.findInsight()
	if err != nil {
		return err
	}
	if err := q.readForm(); err != nil {
		return err
	}
	// A form is sent with CR LF, which browsers count as one.
	reason := strings.TrimSpace(strings.ReplaceAll(q.r.PostFormValue("reason"), "\r\n", "\n"))
	if reason = strings.ToValidUTF8(reason, "\uFFFD"); len(utf16.Encode([]rune(reason))) > maxReason {
		return assay.Errorf(assay.CodeInvalid, "The reason is longer than %d characters.", maxReason)
	}
	if err := q.cfg.Insights.MuteInsight(q.ctx, i.ID, reason); err != nil {
		return err
	}
	// Do not log the reason: users write it.
	q.cfg.Logger.InfoContext(q.ctx, "an insight was muted", "organization_id", q.organization(), "insight_id", i.ID, "by", q.session.Subject)
	return q.redirect("/insights/" + i.ID)
}

// unmute removes a mute.
func (h *Handler) unmute(q *request) error {
	i, err := q.findInsight()
	if err != nil {
		return err
	}
	if err := q.cfg.Insights.UnmuteInsight(q.ctx, i.ID); err != nil {
		return err
	}
	q.cfg.Logger.InfoContext(q.ctx, "an insight was unmuted", "organization_id", q.organization(), "insight_id", i.ID, "by", q.session.Subject)
	return q.redirect("/insights/" + i.ID)
}

// readForm reads the form of a request.
func (q *request) readForm() error {
	q.r.Body = http.MaxBytesReader(q.w, q.r.Body, maxForm)
	if err := q.r.ParseForm(); err != nil {
		return assay.Errorf(assay.CodeInvalid, "The form could not be read.")
	}
	return nil
}
