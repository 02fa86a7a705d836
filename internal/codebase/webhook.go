// SPDX-License-Identifier: Apache-2.0

package codebase

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"assay"
	"assay/internal/codebase/source"
	"assay/internal/fair"
)

// Limits of webhooks.
const (
	maxWebhook      = 4 << 20          // bytes of a body: a push has up to 2048 commits
	maxBodies       = 8 * maxWebhook   // bytes of the bodies in memory, shared by the addresses of senders
	webhookTimeout  = 10 * time.Second // for a body to arrive
	maxDeliveries   = 4096             // that are remembered
	ownerWait       = 5 * time.Second  // for a host to check the owners of installations: it expects a response within ten
	removedByGitHub = "the App was uninstalled at GitHub; connect it again"
)

// webhooks limits webhooks and records the handled ones.
type webhooks struct {
	bodies *fair.Limiter // bytes by address

	mu    sync.Mutex
	known map[[32]byte]bool
	order [][32]byte // a ring
	next  int
}

func newWebhooks() *webhooks {
	return &webhooks{bodies: fair.NewLimiter(maxBodies), known: make(map[[32]byte]bool), order: make([][32]byte, maxDeliveries)}
}

func (h *webhooks) handled(d [32]byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known[d]
}

func (h *webhooks) remember(d [32]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known[d] {
		return
	}
	delete(h.known, h.order[h.next])
	h.order[h.next], h.known[d] = d, true
	h.next = (h.next + 1) % len(h.order)
}

// webhookBody counts the bytes of a body for its sender as they arrive, so that slow senders leave room for other senders,
// also behind the same proxy.
type webhookBody struct {
	io.ReadCloser
	bodies  *fair.Limiter
	address string
	bytes   int64
}

// Read implements io.Reader.
func (b *webhookBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n == 0 {
		return 0, err
	}
	if !b.bodies.Acquire(b.address, int64(n)) {
		return 0, assay.Errorf(assay.CodeUnavailable, "too many webhooks are arriving")
	}
	b.bytes += int64(n)
	return n, err
}

func (b *webhookBody) release() { b.bodies.Release(b.address, b.bytes) }

// webhookData is the answer to a webhook.
type webhookData struct {
	Status string `json:"status"` // handled, ignored, repeated
	Runs   int    `json:"runs"`   // that were scheduled
}

// webhook handles an event of a source host. The signature is checked before anything else is read of the body.
func (s *server) webhook(w http.ResponseWriter, r *http.Request, kind string) (any, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, assay.Errorf(assay.CodeMethodNotAllowed, "this path does not support the method")
	}
	arriving := &webhookBody{ReadCloser: r.Body, bodies: s.webhooks.bodies, address: fair.AddressOf(r.RemoteAddr).String()}
	defer arriving.release()
	r.Body = arriving
	// A test's writer has no deadlines.
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(webhookTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	body, err := readBody(w, r, maxWebhook)
	if err != nil {
		return nil, err
	}
	e, err := s.cfg.Sources.Event(kind, r.Header, body)
	if assay.ErrorCode(err) == assay.CodeForbidden {
		return nil, assay.Errorf(codeSignature, "the signature is missing or not valid")
	}
	if err != nil {
		return nil, err
	}
	// Hosts send an event again when they got no answer. Its effect is the same, except that a push may lead to
	// another review.
	delivery := sha256.Sum256(append([]byte(kind+"\n"+r.Header.Get("X-Github-Event")+"\n"), body...))
	if s.webhooks.handled(delivery) {
		return webhookData{Status: "repeated"}, nil
	}
	d := webhookData{Status: "handled"}
	switch e.Kind {
	case source.EventPush:
		d.Runs, err = s.pushed(r.Context(), kind, e)
	case source.EventDeleted, source.EventSuspended, source.EventRestored:
		err = s.installationChanged(r.Context(), kind, e)
	case source.EventRepositories:
		err = s.repositoriesChanged(r.Context(), kind, e)
	default:
		return webhookData{Status: "ignored"}, nil
	}
	if err != nil {
		return nil, err
	}
	s.webhooks.remember(delivery)
	return d, nil
}

// pushed schedules reviews of a repository whose default branch has another commit, unless its installation is lost.
func (s *server) pushed(ctx context.Context, kind string, e *source.Event) (runs int, err error) {
	if e.Branch == "" {
		return 0, nil
	}
	repositories, err := s.cfg.Store.ConnectedRepositories(ctx, kind, e.Repository)
	if err != nil {
		return 0, err
	}
	asking, stop := context.WithTimeout(ctx, ownerWait)
	defer stop()
	for _, r := range repositories {
		if e.Branch != cmp.Or(e.Default, r.DefaultBranch) || e.Commit == r.ReviewedCommit {
			continue
		}
		installations, err := s.cfg.Store.Installations(assay.WithOrganization(ctx, r.OrganizationID), r.OrganizationID)
		if err != nil {
			return runs, err
		}
		if slices.ContainsFunc(installations, func(i *assay.Installation) bool {
			return i.ID == r.InstallationID && s.cfg.Sources.Lost(asking, i)
		}) {
			continue
		}
		_, created, err := s.cfg.Store.ScheduleRun(assay.WithOrganization(ctx, r.OrganizationID), &assay.Run{
			OrganizationID: r.OrganizationID, RepositoryID: r.ID, InstallationID: r.InstallationID, RepositoryName: r.FullName,
			Type: assay.RunReview, Status: assay.RunPending, Trigger: assay.TriggerPush,
		})
		switch code := assay.ErrorCode(err); {
		case err != nil && code != assay.CodeConflict && code != assay.CodeNotFound: // full, or deleted meanwhile
			return runs, err
		case created:
			runs++
		}
	}
	if runs > 0 {
		s.cfg.Wake()
	}
	return runs, nil
}

// installationChanged records that an installation was removed, suspended or restored.
func (s *server) installationChanged(ctx context.Context, kind string, e *source.Event) error {
	connected, err := s.cfg.Store.ConnectedInstallations(ctx, kind, e.InstallationID)
	if err != nil {
		return err
	}
	for _, i := range connected {
		status, text := assay.InstallationActive, ""
		switch e.Kind {
		case source.EventSuspended:
			status, text = assay.InstallationSuspended, "the installation is suspended at the source host"
		case source.EventDeleted:
			status, text = assay.InstallationFailed, removedByGitHub
			if err := s.deny(ctx, i, func(*assay.Repository) bool { return true }); err != nil {
				return err
			}
		}
		err := s.cfg.Store.SetInstallationState(ctx, i.OrganizationID, i.ID, status, text)
		if err != nil && assay.ErrorCode(err) != assay.CodeNotFound {
			return err
		}
	}
	return nil
}

// repositoriesChanged adds the repositories that an installation may read now, inactive, unless it is lost, and notes
// those that it may not.
func (s *server) repositoriesChanged(ctx context.Context, kind string, e *source.Event) error {
	connected, err := s.cfg.Store.ConnectedInstallations(ctx, kind, e.InstallationID)
	if err != nil {
		return err
	}
	asking, stop := context.WithTimeout(ctx, ownerWait)
	defer stop()
	for _, i := range connected {
		var added []*assay.Repository
		for _, name := range e.Added {
			if r, ok := s.cfg.Sources.Named(kind, name); ok {
				r.OrganizationID, r.InstallationID = i.OrganizationID, i.ID
				added = append(added, r)
			}
		}
		if len(added) > 0 && !s.cfg.Sources.Lost(asking, i) {
			err := s.cfg.Store.SaveRepositories(ctx, i.OrganizationID, added)
			switch assay.ErrorCode(err) {
			case "":
			case assay.CodeConflict, assay.CodeNotFound:
				s.cfg.Logger.InfoContext(ctx, "repositories of a source host were not added", "organization_id", i.OrganizationID, "error", err)
			default:
				return err
			}
		}
		if err := s.deny(ctx, i, func(r *assay.Repository) bool { return slices.Contains(e.Removed, r.FullName) }); err != nil {
			return err
		}
	}
	return nil
}

// deny records that the source host has withdrawn access to repositories of an installation. Their findings stay.
func (s *server) deny(ctx context.Context, i *assay.Installation, lost func(*assay.Repository) bool) error {
	all, err := s.cfg.Store.Repositories(ctx, i.OrganizationID)
	if err != nil {
		return err
	}
	var denied []*assay.Repository
	for _, r := range all {
		if r.InstallationID == i.ID && r.Access != assay.AccessDenied && lost(r) {
			r.Access = assay.AccessDenied
			denied = append(denied, r)
		}
	}
	if len(denied) == 0 {
		return nil
	}
	return s.cfg.Store.SaveRepositories(ctx, i.OrganizationID, denied)
}
