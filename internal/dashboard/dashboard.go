// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"assay"
)

// readTimeout bounds what a page waits for the store, and sideTimeout what it waits
// for a part that it can be shown without.
const (
	readTimeout = 10 * time.Second
	sideTimeout = 3 * time.Second

	analyzed = 20_000 // services whose cost is kept in memory
)

// Config is what the pages are made from. Session, the stores and Analyst are
// needed.
type Config struct {
	// Session returns whose request it is, nil when nobody is signed in.
	Session func(context.Context) *assay.Session

	Organizations OrganizationFinder
	Services      ServiceFinder
	ServiceLists  assay.ServiceLister
	Overviews     assay.OverviewStore
	States        RuleStater
	Insights      assay.InsightStore
	Analyst       assay.Analyst
	Keys          KeyManager // nil: keys cannot be managed here

	LogVolume assay.LogVolumeReader // nil: not configured
	Summaries assay.Summarizer      // nil: not configured

	// OTLPHTTP and OTLPGRPC are where SDKs and Collectors send to, such as
	// http://127.0.0.1:4318. The gRPC address has a scheme too, which says whether it
	// speaks TLS. Without a host, such as http://:4318, it is the one of the request.
	OTLPHTTP, OTLPGRPC string
	// APIPath is the path of the REST API's root, default /api.
	APIPath string
	Version string
	// PublicURL is scheme and host by which browsers come; "": those of the request.
	PublicURL string

	Window time.Duration    // of scores; default assay.DefaultWindow
	Now    func() time.Time // default time.Now
	Logger *slog.Logger     // default: none
}

// Handler serves the pages and their assets. It may be used concurrently.
type Handler struct {
	cfg    Config
	mux    *http.ServeMux
	pages  map[string]*template.Template
	assets *assets
	rules  []*ruleText // in the catalog's order

	choices []template.HTML // that concern every rule

	analytics    *memo[*analysis]
	environments *memo[[]string]
}

var _ http.Handler = (*Handler)(nil)

// New returns the handler of the dashboard, for the root of the host. Its caller closes
// it before the stores. Its error is a mistake in the files of the package.
func New(cfg Config) (*Handler, error) {
	if cfg.Window <= 0 {
		cfg.Window = assay.DefaultWindow
	}
	if cfg.APIPath == "" {
		cfg.APIPath = "/api"
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Handler{cfg: cfg, mux: http.NewServeMux(), rules: ruleTexts(), choices: generalChoices()}
	var err error
	if h.assets, err = loadAssets(); err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	if h.pages, err = h.parsePages(); err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	h.analytics = newMemo(cfg.Now, h.analyze)
	h.environments = newMemo(cfg.Now, func(ctx context.Context, organizationID string) ([]string, error) {
		return cfg.ServiceLists.FindEnvironments(ctx, organizationID, maxEnvironments)
	})
	h.page("GET /{$}", h.overview)
	h.page("GET /services", h.services)
	h.page("GET /services/{id}", h.service)
	h.page("GET /insights", h.insights)
	h.page("GET /insights/{id}", h.insight)
	h.page("POST /insights/{id}/summary", h.summarize)
	h.page("POST /insights/{id}/mute", h.mute)
	h.page("POST /insights/{id}/unmute", h.unmute)
	h.page("GET /costs", h.costs)
	h.page("GET /rules", h.ruleList)
	h.page("GET /rules/{id}", h.rule)
	h.page("GET /keys", h.keys)
	h.page("POST /keys", h.createKey)
	h.page("GET /keys/{id}/revoke", h.confirmRevoke)
	h.page("POST /keys/{id}/revoke", h.revokeKey)
	h.mux.HandleFunc("POST /theme", h.setTheme)
	h.mux.Handle("GET "+AssetsPath, h.assets)
	h.mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, h.assets.path("favicon.svg"), http.StatusFound)
	})
	return h, nil
}

// Close ends what is read beside requests and waits for it.
func (h *Handler) Close() {
	h.analytics.Close()
	h.environments.Close()
}

// page registers a page for those who are signed in; others are sent to sign in.
func (h *Handler) page(pattern string, serve func(*request) error) {
	h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		q := h.request(w, r)
		if q.session == nil {
			q.signIn()
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
		defer cancel()
		q.ctx = ctx
		if err := serve(q); err != nil {
			q.fail(err)
		}
	})
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	handler, pattern := h.mux.Handler(r)
	if pattern == "" {
		h.unrouted(w, r, handler)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// unrouted answers what no page has the path or the method of: with the status that
// the mux would give, and a page of ours.
func (h *Handler) unrouted(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	probe := &statusOnly{header: http.Header{}}
	handler.ServeHTTP(probe, r)
	q := h.request(w, r)
	if allow := probe.header.Get("Allow"); allow != "" {
		w.Header().Set("Allow", allow)
		q.showError(http.StatusMethodNotAllowed, "This address does not take that", "The page is there, but cannot be asked in this way.")
		return
	}
	q.fail(&assay.Error{Code: assay.CodeNotFound, Message: "There is no page at this address."})
}

// statusOnly is a response of which only the header counts.
type statusOnly struct{ header http.Header }

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
func (s *statusOnly) WriteHeader(int)             {}

// protect sets what every response has: nothing but what is from here runs, is shown
// or is sent to, and nobody frames it.
func protect(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
}

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
