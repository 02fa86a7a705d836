// SPDX-License-Identifier: Apache-2.0

package dashboardtest

import (
	"context"
	"time"

	"assay"
	"assay/internal/dashboard"
)

// Config returns the configuration of pages that show w to the session who. nil means no session.
func Config(w *World, who *assay.Session) dashboard.Config {
	return dashboard.Config{
		Session:       func(context.Context) *assay.Session { return who },
		Organizations: w, Services: w, ServiceLists: w, Overviews: w, States: w, Insights: w, Analyst: w, Keys: w, Webhooks: w.Webhooks, LogVolume: w, Summaries: w, Agent: w, Code: w,
		OTLPHTTP: "http://127.0.0.1:4318", OTLPGRPC: "http://127.0.0.1:4317", Version: "1.0.0",
		Now: func() time.Time { return Now },
	}
}
