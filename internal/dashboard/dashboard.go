// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"assay"
	"assay/internal/fair"
)

// readTimeout limits the reads of a page. sideTimeout limits the reads of optional parts.
const (
	readTimeout = 10 * time.Second
	sideTimeout = 3 * time.Second

	analyzed = 20_000 // services whose cost is kept in memory
)

// Config configures a Handler. Session, the stores and Analyst are required.
type Config struct {
	// Session returns the session of a request, or nil if there is none.
	Session func(context.Context) *assay.Session

	Organizations OrganizationFinder
	Services      ServiceFinder
	ServiceLists  assay.ServiceLister
	Overviews     assay.OverviewStore
	States        RuleStater
	Insights      assay.InsightStore
	Analyst       assay.Analyst
	Keys          assay.KeyManager     // nil: keys cannot be managed here
	Webhooks      assay.WebhookManager // nil: there are no webhooks

	LogVolume assay.LogVolumeReader // nil: not configured
	Summaries assay.Summarizer      // nil: not configured
	Agent     assay.AgentBackend    // nil: not configured
	Code      CodeFinder            // nil: insights have no code
	// AgentModel: the agent has a language model for findings without a mechanical fix.
	AgentModel bool

	// OTLPHTTP and OTLPGRPC are the OTLP URLs for SDKs and Collectors, such as http://127.0.0.1:4318. The scheme of
	// the gRPC URL selects TLS or plain text. A URL without a host, such as http://:4318, gets the host of the
	// request.
	OTLPHTTP, OTLPGRPC string
	// APIPath is the path of the REST API's root, default /api.
	APIPath string
	Version string
	// PublicURL is scheme and host under which browsers reach the server; "": those of the request.
	PublicURL string

	CPU    *fair.Semaphore  // for templates, by organization; nil: no limit
	Window time.Duration    // of scores; default assay.DefaultWindow
	Now    func() time.Time // default time.Now
	Logger *slog.Logger     // default: none
}

// CodeFinder finds the places in code behind an insight. assay.CodebaseStore implements it.
type CodeFinder interface {
	Findings(ctx context.Context, organizationID string, f assay.FindingFilter) (page []*assay.CodeFinding, total int, err error)
}

// Handler serves the pages and their assets. It is safe for concurrent use.
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

// New returns the handler of the dashboard, for the root of the host. The caller closes it before the stores. New
// fails only if an embedded file is invalid.
func New(cfg Config) (*Handler, error) {
	if cfg.Window <= 0 {
		cfg.Window = assay.DefaultWindow
	}
	cfg.APIPath = cmp.Or(cfg.APIPath, "/api")
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
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
	h.page("GET /repositories", h.repositories)
	h.page("GET /repositories/connect", h.connect)
	h.page("POST /repositories/connect", h.connectRepository)
	h.page("GET /repositories/connect/{kind}", h.authorize)
	h.page("GET /repositories/{id}", h.repository)
	h.page("POST /repositories/{id}/activate", h.activate(true))
	h.page("POST /repositories/{id}/deactivate", h.activate(false))
	h.page("POST /repositories/{id}/review", h.review)
	h.page("POST /repositories/{id}/fix", h.fix)
	h.page("POST /repositories/{id}/change", h.change)
	h.page("POST /repositories/{id}/settings", h.saveSettings)
	h.page("GET /repositories/{id}/findings/{finding}", h.finding)
	h.page("POST /repositories/{id}/findings/{finding}/dismiss", h.dismiss(true))
	h.page("POST /repositories/{id}/findings/{finding}/restore", h.dismiss(false))
	h.page("GET /findings", h.findings)
	h.page("GET /runs", h.runs)
	h.page("GET /runs/{id}", h.run)
	h.page("GET /runs/{id}/patch", h.downloadPatch)
	h.page("GET /costs", h.costs)
	h.page("GET /rules", h.ruleList)
	h.page("GET /rules/{id}", h.rule)
	h.page("GET /keys", h.keys)
	h.page("POST /keys", h.createKey)
	h.page("GET /keys/{id}/revoke", h.confirmRevoke)
	h.page("POST /keys/{id}/revoke", h.revokeKey)
	h.page("GET /webhooks", h.webhooks)
	h.page("POST /webhooks", h.createWebhook)
	h.page("GET /webhooks/{id}", h.webhook)
	h.page("POST /webhooks/{id}/enable", h.enableWebhook(true))
	h.page("POST /webhooks/{id}/disable", h.enableWebhook(false))
	h.page("POST /webhooks/{id}/test", h.testWebhook)
	h.page("GET /webhooks/{id}/delete", h.confirmDeleteWebhook)
	h.page("POST /webhooks/{id}/delete", h.deleteWebhook)
	h.mux.HandleFunc("POST /theme", h.setTheme)
	h.mux.Handle("GET "+AssetsPath, h.assets)
	h.mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, h.assets.path("favicon.svg"), http.StatusFound)
	})
	return h, nil
}

// Close cancels background reads and waits for them.
func (h *Handler) Close() {
	h.analytics.Close()
	h.environments.Close()
}

// page registers a page that requires a session. Requests without one are redirected to the sign-in page.
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

// unrouted answers requests without a page: with the status of the mux, and an error page.
func (h *Handler) unrouted(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	probe := &statusOnly{header: http.Header{}}
	handler.ServeHTTP(probe, r)
	q := h.request(w, r)
	if allow := probe.header.Get("Allow"); allow != "" {
		w.Header().Set("Allow", allow)
		q.showError(http.StatusMethodNotAllowed, "Method not allowed", "This address does not support the method of the request.")
		return
	}
	q.fail(&assay.Error{Code: assay.CodeNotFound, Message: "There is no page at this address."})
}

// statusOnly is a ResponseWriter that keeps only the header.
type statusOnly struct{ header http.Header }

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
func (s *statusOnly) WriteHeader(int)             {}

// protect sets the security headers of every response: content comes from this server only, and other pages cannot
// frame it.
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
