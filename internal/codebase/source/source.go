// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"time"

	"assay"
	"assay/internal/auth"
	"assay/internal/auth/seal"
	"assay/internal/fair"
)

// Kinds of sources, the providers of installations.
const (
	KindGit   = "git"
	KindLocal = "local"
)

// Request is a request to connect a repository, or the repositories of a directory.
type Request struct {
	Organization string // id of the organization
	Kind         string
	URL          string // clone URL of KindGit, absolute path of KindLocal
	Credential   Credential
}

// Connection identifies a source, with its credential.
type Connection struct {
	Provider     string
	ExternalID   string // id at a provider with an API
	Account      string
	OwnerID      int64               // for an organization of KindGitHub: id of the user that connected it
	Credential   Credential          // includes data from the host, such as its SSH host keys
	Repositories []*assay.Repository // FullName, URL, DefaultBranch and Access are set
}

// Want selects the commit to check out.
type Want struct {
	Ref    string // name of a branch; "" for the default branch
	Commit string // used if the source still has it; "" for the newest commit
}

// Checkout is a commit of a repository in a directory.
type Checkout struct {
	Dir           string // must not be changed
	DefaultBranch string // "" if the source has none
	Commit        string // "" if the source has none
}

// Host is a kind of source. Its errors have a code and a message for the caller. It is safe for concurrent use.
type Host interface {
	// Connect checks that a source can be read, and returns the data to store.
	Connect(ctx context.Context, r *Request) (*Connection, error)
	// Checkout makes the files of a repository readable. It may write below dir, an empty directory that the caller
	// removes.
	Checkout(ctx context.Context, r *assay.Repository, c Credential, w Want, dir string) (*Checkout, error)
}

// Limits limit a checkout.
type Limits struct {
	Bytes int64         // limit of the packed objects, and of the files
	Files int           // in the commit
	Time  time.Duration // of a command
}

// Config configures Sources.
type Config struct {
	Roots        []string // directories below which KindLocal may read
	PrivateHosts bool     // allow addresses of loopback, private and link-local networks
	CAFile       string   // CA certificates for hosts in PEM; "" for those of the system
	Limits       Limits
	Forges       map[string]ForgeConfig // by kind; a host without a ClientID is not configured
	Store        CredentialStore        // for refreshed credentials
	Now          func() time.Time       // default time.Now
	WorkDir      string                 // for private directories of commands
	Secret       auth.Secret            // encrypts credentials; "" rejects sources with a credential
}

// CredentialStore is the part of assay.CodebaseStore that stores refreshed credentials.
type CredentialStore interface {
	Installations(ctx context.Context, organizationID string) ([]*assay.Installation, error)
	ReplaceCredential(ctx context.Context, organizationID, id string, old, credential []byte) (bool, error)
}

// Sources provides access to all kinds of sources. It is safe for concurrent use.
type Sources struct {
	hosts    map[string]Host
	forges   map[string]forge // only configured kinds
	store    CredentialStore
	now      func() time.Time
	box      *seal.Box
	connects *fair.Semaphore // limits concurrent calls of connect by organization
}

const (
	maxConnects    = 16               // concurrent calls of connect
	maxOwnConnects = 2                // concurrent calls of connect for an organization
	connectTimeout = 13 * time.Second // of a call of connect
	connectWait    = 15 * time.Second // for a free slot; callers wait longer than connectWait+connectTimeout
)

// New returns Sources for a configuration. Its methods need git, but New does not.
func New(cfg Config) (*Sources, error) {
	box, err := seal.New(cfg.Secret, sealPurpose)
	if err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	g := &git{cfg: cfg, lookup: lookup}
	local, err := newLocal(cfg.Roots, g)
	if err != nil {
		return nil, err
	}
	s := &Sources{
		box: box, connects: fair.NewSemaphore(maxConnects, maxOwnConnects), hosts: map[string]Host{KindGit: &gitHost{g}, KindLocal: local},
		forges: make(map[string]forge), store: cfg.Store, now: cfg.Now,
	}
	for kind, c := range cfg.Forges {
		if c.ClientID == "" {
			continue
		}
		var f forge
		switch kind {
		case KindGitHub:
			f, err = newGitHub(c, g)
		case KindGitLab:
			f, err = newGitLab(c, g)
		case KindGitea:
			f, err = newGitea(c, g)
		default:
			err = fmt.Errorf("unknown kind of source host: %s", kind)
		}
		if err != nil {
			return nil, err
		}
		s.forges[kind] = f
	}
	return s, nil
}

// try calls connect with a timeout, and limits the number of concurrent calls. It returns the error slow after the
// timeout.
func (s *Sources) try(ctx context.Context, organization string, slow error, connect func(context.Context) (*Connection, error)) (*Connection, error) {
	wait, stop := context.WithTimeout(ctx, connectWait)
	err := s.connects.Acquire(wait, organization)
	stop()
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, assay.Errorf(assay.CodeRateLimited, "too many sources are being connected; try again later")
	}
	defer s.connects.Release(organization)
	limited, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	c, err := connect(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = slow
	}
	return c, err
}

// Connect checks that a source can be read and returns the data to store.
func (s *Sources) Connect(ctx context.Context, r *Request) (*Connection, error) {
	h := s.hosts[r.Kind]
	if h == nil {
		return nil, unprocessable("kind", "must be git or local; other kinds are connected by an onboarding session")
	}
	if !r.Credential.empty() && !s.box.Encrypts() {
		return nil, unprocessable("token", "cannot be stored, because the server has no --secret-key-file to encrypt it with")
	}
	slow := unprocessable("url", "the source host did not answer in time")
	return s.try(ctx, r.Organization, slow, func(ctx context.Context) (*Connection, error) { return h.Connect(ctx, r) })
}

// Checkout makes the files of a repository readable. It may write below dir, an empty directory that the caller
// removes.
func (s *Sources) Checkout(ctx context.Context, i *assay.Installation, r *assay.Repository, w Want, dir string) (*Checkout, error) {
	kind, c, _, err := s.access(ctx, i, r, toRead)
	if err != nil {
		return nil, err
	}
	h := s.hosts[kind]
	if h == nil {
		return nil, errNotConfigured(kind)
	}
	return h.Checkout(ctx, r, c, w, dir)
}

// access returns the kind of the Host that reads a repository, the credential, and the forge, which is nil if the host
// has no API.
func (s *Sources) access(ctx context.Context, i *assay.Installation, r *assay.Repository, p permissions) (kind string, c Credential, f forge, err error) {
	if f = s.forges[i.Provider]; f != nil {
		c, err = s.forgeCredential(ctx, i, r, f, p)
		return KindGit, c, f, err
	}
	c, err = s.Open(i)
	return i.Provider, c, nil, err
}

// forgeCredential returns the credential for a repository of a host with an API, for both git and the API.
func (s *Sources) forgeCredential(ctx context.Context, i *assay.Installation, r *assay.Repository, f forge, p permissions) (c Credential, err error) {
	if i.Status == assay.InstallationSuspended {
		return c, assay.Errorf(assay.CodeUnprocessable, "the installation is suspended at the source host")
	}
	if known, ok := f.host().repository(r.FullName, ""); !ok || known.URL != r.URL {
		return c, assay.Errorf(assay.CodeUnprocessable, "the repository belongs to another host than the one that the server is configured for")
	}
	if o, ok := f.(*oauthForge); ok {
		if c, err = s.fresh(ctx, i, o); err != nil {
			return c, err
		}
	}
	return f.credential(ctx, i, r, c, p)
}

func unprocessable(field, text string) error {
	return &assay.Error{
		Code: assay.CodeUnprocessable, Message: "the source cannot be connected",
		Details: map[string]string{field: text},
	}
}
