// SPDX-License-Identifier: Apache-2.0

package main

import (
	"assay/internal/auth"
	"assay/internal/rest"
	"assay/internal/webhook"
)

// webhookConfig holds the flags of webhooks.
type webhookConfig struct {
	WebhookAllowPrivateHosts bool `help:"Allow webhooks to hosts in loopback, private and link-local networks, and to http URLs."`
}

// openWebhooks prepares the webhooks and their worker.
func (s *server) openWebhooks(credentials auth.Secret) (err error) {
	s.outgoing, err = webhook.NewManager(webhook.Config{
		Store: s.store, Insights: s.store, Render: rest.RenderInsight, Secret: credentials, PrivateHosts: s.cfg.WebhookAllowPrivateHosts,
		UserAgent: "assay/" + version(), Observe: s.own.ObserveWebhook, Now: s.replica.Now, Logger: s.logger,
	})
	return err
}
