// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"time"

	"assay"
	"assay/internal/lists"
)

// APIKey is an API key of an organization.
type APIKey struct {
	ID          string        `json:"id"`
	KeyPreview  string        `json:"key_preview"`
	Description string        `json:"description"`
	Scopes      []assay.Scope `json:"scopes"`
	CreatedAt   string        `json:"created_at"`
	LastSeenAt  *string       `json:"last_seen_at"`
	ExpiresAt   *string       `json:"expires_at"`
	IsActive    bool          `json:"is_active"`
	CreatedBy   *string       `json:"created_by"`
	Key         string        `json:"key,omitempty"` // only in the response to its creation
}

// apiKeyInput is the body of a request.
type apiKeyInput struct {
	Description string        `json:"description"`
	Scopes      []assay.Scope `json:"scopes"`
	ExpiresIn   *int64        `json:"expires_in" unit:"seconds"`
}

func (s *server) showAPIKey(k *assay.APIKey) APIKey {
	out := APIKey{
		ID: k.ID, KeyPreview: s.cfg.Keys.Preview(k), Description: k.Name, Scopes: append([]assay.Scope{}, k.Scopes...), CreatedAt: timestamp(k.CreatedAt),
		LastSeenAt: optionalTime(k.LastUsedAt), ExpiresAt: optionalTime(k.ExpiresAt), IsActive: k.Live(s.now()),
	}
	if k.CreatedBy != "" {
		out.CreatedBy = &k.CreatedBy
	}
	return out
}

// optionalTime returns nil for the zero time.
func optionalTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := timestamp(t)
	return &text
}

func (s *server) apiKeys() {
	configured := func() error {
		if s.cfg.Keys == nil {
			return assay.Errorf(assay.CodeUnavailable, "this server does not manage API keys")
		}
		return nil
	}
	create := route{scope: assay.ScopeAdmin, unknown: assay.CodeNotFound}
	admin := create
	admin.ready = configured

	handleList(s, "list-api-keys", admin, func(ctx context.Context, c *call) ([]APIKey, int, error) {
		found, err := s.cfg.Keys.FindKeys(ctx, c.Principal, c.page())
		if err != nil {
			return nil, 0, err
		}
		return lists.Map(found.Keys, s.showAPIKey), found.Total, nil
	})
	handle(s, "create-api-key", create, func(ctx context.Context, c *call) (APIKey, error) {
		var in apiKeyInput
		if err := s.readFields(ctx, c, &in); err != nil {
			return APIKey{}, err
		}
		if err := configured(); err != nil {
			return APIKey{}, err
		}
		n := assay.NewAPIKey{Name: in.Description, Scopes: in.Scopes}
		if in.Scopes == nil {
			n.Scopes = []assay.Scope{assay.ScopeRead}
		}
		if in.ExpiresIn != nil {
			n.ExpiresIn = -1 // not valid
			if 1 <= *in.ExpiresIn && *in.ExpiresIn <= int64(assay.MaxAPIKeyLife/time.Second) {
				n.ExpiresIn = time.Duration(*in.ExpiresIn) * time.Second
			}
		}
		k, secret, err := s.cfg.Keys.CreateKey(ctx, c.Principal, n)
		if err != nil {
			return APIKey{}, err
		}
		out := s.showAPIKey(k)
		out.Key = secret
		return out, nil
	})
	handle(s, "delete-api-key", admin, func(ctx context.Context, c *call) (any, error) {
		return nil, s.cfg.Keys.RevokeKey(ctx, c.Principal, param[string](c.params, "id"))
	})
}
