// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"assay"
	"assay/internal/score"
)

const (
	overviewPoints = 90 // of the series of the organization's score
	fixedFirst     = 6  // rows of the list of rules to fix first
	costRows       = 10
	liveSeconds    = 5 // between updates of a page
	waitingSeconds = 2 // while there is no data
)

// overviewPage is the page at the root.
type overviewPage struct {
	Organization *assay.Organization
	Score        *scoreValue
	Series       *scoreChart // nil without points
	Bands        []bandCount
	Fixes        []fix
	MoreFixes    int
	Volume       volumePart
	Cost         *costPart // nil if it is unknown
}

// bandCount is how many services are in a band.
type bandCount struct {
	Band     string
	Services int
	X, Width string // of its part of a bar
	Share    string // of all services
}

// fix is a rule and the gain from fixing it in all services.
type fix struct {
	Rule     *ruleText
	Services int    // with an active insight
	Gain     string // points of the organization's score; "" for a type without a rule
}

// volumePart is the part of the page about log volume.
type volumePart struct {
	Period  assay.LogVolumePeriod
	Periods []assay.LogVolumePeriod
	Chart   *stackChart // nil: see Problem
	Empty   bool
	Problem string
}

// overview shows the organization, or the first-run page until it has a service.
func (h *Handler) overview(q *request) error {
	organization, err := q.cfg.Organizations.FindOrganizationByID(q.ctx, q.organization())
	if err != nil {
		return err
	}
	if organization.ServicesCount == 0 {
		return q.firstRun()
	}
	period, err := q.period()
	if err != nil {
		return err
	}
	page := overviewPage{Organization: organization}
	if organization.Score != nil {
		s := roundedScore(*organization.Score)
		page.Score = &s
	}
	var groups []assay.ScoreGroup
	var counts []assay.InsightTypeCount
	var points []assay.ScorePoint
	series := q.series(overviewPoints)
	reads, ctx := errgroup.WithContext(q.ctx)
	reads.Go(func() (err error) {
		groups, err = q.cfg.Overviews.FindScoreGroups(ctx, organization.ID)
		return err
	})
	reads.Go(func() (err error) {
		counts, err = q.cfg.Overviews.FindInsightTypeCounts(ctx, organization.ID)
		return err
	})
	reads.Go(func() (err error) {
		points, err = q.cfg.Overviews.FindOrganizationScores(ctx, organization.ID, series)
		return err
	})
	reads.Go(func() error {
		page.Volume = q.volume(ctx, period)
		return nil
	})
	reads.Go(func() error {
		if found := q.analysis(ctx); found != nil {
			page.Cost = found.top(costRows)
		}
		return nil
	})
	if err := reads.Wait(); err != nil {
		return err
	}
	page.Series = newScoreChart("Score of the organization", points, series.Start, series.End)
	page.Bands = bandCounts(groups, organization.ServicesCount)
	page.Fixes = q.fixesOf(groups, counts)
	if len(page.Fixes) > fixedFirst {
		page.Fixes, page.MoreFixes = page.Fixes[:fixedFirst], len(page.Fixes)-fixedFirst
	}
	return q.render(http.StatusOK, "overview", view{Title: "Overview", Section: "overview", Live: liveSeconds, Data: page})
}

// series returns the query for the time series of a score in the window. Its end is rounded to the minute, so that
// polling does not change the page.
func (q *request) series(points int) assay.SeriesRange {
	end := q.now.Truncate(time.Minute).Add(time.Minute)
	return assay.SeriesRange{Start: end.Add(-q.cfg.Window), End: end, Points: points}
}

// defaultPeriod is the one that the API has, too.
const defaultPeriod assay.LogVolumePeriod = "24h"

// period returns the period of log volume that the address names.
func (q *request) period() (assay.LogVolumePeriod, error) {
	p := assay.LogVolumePeriod(cmp.Or(q.r.URL.Query().Get("period"), string(defaultPeriod)))
	if p.Duration() == 0 {
		return "", assay.Errorf(assay.CodeInvalid, "The period has to be one of 1h, 6h, 12h, 24h, 7d and 30d.")
	}
	return p, nil
}

// volume reads log volume. If it fails, the page is shown without log volume.
func (q *request) volume(ctx context.Context, period assay.LogVolumePeriod) volumePart {
	part := volumePart{Period: period, Periods: assay.LogVolumePeriods()}
	if q.cfg.LogVolume == nil {
		part.Problem = "No metrics store is configured, so log volume is not kept."
		return part
	}
	ctx, cancel := context.WithTimeout(ctx, sideTimeout)
	defer cancel()
	v, err := q.cfg.LogVolume.LogVolume(ctx, q.organization(), period)
	switch {
	case err != nil:
		if q.r.Context().Err() == nil {
			q.log(slog.LevelWarn, fmt.Errorf("log volume: %w", err))
		}
		part.Problem = "The metrics store does not answer at the moment."
	case v.Counts.Total() == 0 || len(v.Series) == 0:
		part.Empty = true
	default:
		part.Chart = newStackChart(v)
	}
	return part
}

// bandCounts returns how many services are in each band, and how many have no score.
func bandCounts(groups []assay.ScoreGroup, services int) []bandCount {
	bands := score.Bands(groups)
	scored := 0
	for _, b := range bands {
		scored += b.Services
	}
	bands = append(bands, score.Band{Category: assay.Unscored, Services: max(0, services-scored)})
	total := float64(max(1, scored, services))
	all := make([]bandCount, len(bands))
	x := 0.0
	for i, b := range bands {
		width := float64(b.Services) / total
		all[i] = bandCount{Band: b.Category, Services: b.Services, X: share(x), Width: share(width), Share: percent(width, 1)}
		x += width
	}
	return all
}

// fixesOf returns the rules to fix, by descending gain.
func (q *request) fixesOf(groups []assay.ScoreGroup, counts []assay.InsightTypeCount) []fix {
	var all []fix
	for _, f := range score.Fixes(groups, counts) {
		one := fix{Rule: q.rules[f.Rule], Services: f.Services}
		if f.Rule.ID() != "" {
			one.Gain = points(f.Gain)
		}
		all = append(all, one)
	}
	return all
}

// points returns the text for an increase of a score: +1.3, or less than 0.1.
func points(gain float64) string {
	switch {
	case gain <= 0:
		return "±0"
	case gain < 0.05:
		return "<0.1"
	default:
		return fmt.Sprintf("+%.1f", gain)
	}
}
