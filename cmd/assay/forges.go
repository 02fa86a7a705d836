// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"assay/internal/auth"
	"assay/internal/codebase/source"
)

// forgesConfig holds the flags of source hosts with an API.
type forgesConfig struct {
	GitHubApp               string      `name:"agent-github-app" placeholder:"NAME" help:"GitHub App: its name in https://github.com/apps/NAME."`
	GitHubClientID          string      `name:"agent-github-client-id" placeholder:"TEXT" help:"Client id of the GitHub App."`
	GitHubClientSecret      auth.Secret `name:"agent-github-client-secret" placeholder:"SECRET" help:"Client secret of the GitHub App."`
	GitHubClientSecretFile  string      `name:"agent-github-client-secret-file" placeholder:"FILE" help:"File that contains the client secret of the GitHub App."`
	GitHubPrivateKeyFile    string      `name:"agent-github-private-key-file" placeholder:"FILE" help:"Private key of the GitHub App in PEM."`
	GitHubWebhookSecret     auth.Secret `name:"agent-github-webhook-secret" placeholder:"SECRET" help:"Webhook secret of the GitHub App. Without it webhooks are rejected."`
	GitHubWebhookSecretFile string      `name:"agent-github-webhook-secret-file" placeholder:"FILE" help:"File that contains the webhook secret of the GitHub App."`
	GitHubURL               string      `name:"agent-github-url" default:"https://github.com" placeholder:"URL" help:"URL of GitHub or of a GitHub Enterprise Server (${default})."`

	GitLabClientID          string      `name:"agent-gitlab-client-id" placeholder:"TEXT" help:"Application id of the OAuth application of GitLab."`
	GitLabClientSecret      auth.Secret `name:"agent-gitlab-client-secret" placeholder:"SECRET" help:"Secret of the OAuth application of GitLab."`
	GitLabClientSecretFile  string      `name:"agent-gitlab-client-secret-file" placeholder:"FILE" help:"File that contains the secret of the OAuth application of GitLab."`
	GitLabWebhookSecret     auth.Secret `name:"agent-gitlab-webhook-secret" placeholder:"SECRET" help:"Secret token or signing token of webhooks of GitLab. Without it webhooks are rejected."`
	GitLabWebhookSecretFile string      `name:"agent-gitlab-webhook-secret-file" placeholder:"FILE" help:"File that contains the token of webhooks of GitLab."`
	GitLabURL               string      `name:"agent-gitlab-url" default:"https://gitlab.com" placeholder:"URL" help:"URL of GitLab (${default})."`

	GiteaClientID          string      `name:"agent-gitea-client-id" placeholder:"TEXT" help:"Client id of the OAuth application of Gitea or Forgejo."`
	GiteaClientSecret      auth.Secret `name:"agent-gitea-client-secret" placeholder:"SECRET" help:"Secret of the OAuth application of Gitea or Forgejo."`
	GiteaClientSecretFile  string      `name:"agent-gitea-client-secret-file" placeholder:"FILE" help:"File that contains the secret of the OAuth application of Gitea or Forgejo."`
	GiteaWebhookSecret     auth.Secret `name:"agent-gitea-webhook-secret" placeholder:"SECRET" help:"Secret of webhooks of Gitea or Forgejo. Without it webhooks are rejected."`
	GiteaWebhookSecretFile string      `name:"agent-gitea-webhook-secret-file" placeholder:"FILE" help:"File that contains the secret of webhooks of Gitea or Forgejo."`
	GiteaURL               string      `name:"agent-gitea-url" default:"https://gitea.com" placeholder:"URL" help:"URL of Gitea or Forgejo (${default})."`
}

// forges returns the source hosts by kind.
func (c *forgesConfig) forges() (map[string]source.ForgeConfig, error) {
	var failed error
	secret := func(flag string, value auth.Secret, file string) auth.Secret {
		text, err := readSecret(flag, value, file)
		failed = errors.Join(failed, err)
		return text
	}
	all := map[string]source.ForgeConfig{
		source.KindGitHub: {
			URL: c.GitHubURL, ClientID: c.GitHubClientID, App: c.GitHubApp,
			ClientSecret:  secret("agent-github-client-secret", c.GitHubClientSecret, c.GitHubClientSecretFile),
			WebhookSecret: secret("agent-github-webhook-secret", c.GitHubWebhookSecret, c.GitHubWebhookSecretFile),
		},
		source.KindGitLab: {
			URL: c.GitLabURL, ClientID: c.GitLabClientID,
			ClientSecret:  secret("agent-gitlab-client-secret", c.GitLabClientSecret, c.GitLabClientSecretFile),
			WebhookSecret: secret("agent-gitlab-webhook-secret", c.GitLabWebhookSecret, c.GitLabWebhookSecretFile),
		},
		source.KindGitea: {
			URL: c.GiteaURL, ClientID: c.GiteaClientID,
			ClientSecret:  secret("agent-gitea-client-secret", c.GiteaClientSecret, c.GiteaClientSecretFile),
			WebhookSecret: secret("agent-gitea-webhook-secret", c.GiteaWebhookSecret, c.GiteaWebhookSecretFile),
		},
	}
	if c.GitHubPrivateKeyFile != "" {
		text, err := readBounded(c.GitHubPrivateKeyFile, maxSecretFile)
		if err != nil {
			err = fmt.Errorf("--agent-github-private-key-file: %w", err)
		}
		failed = errors.Join(failed, err)
		github := all[source.KindGitHub]
		github.PrivateKey = text
		all[source.KindGitHub] = github
	}
	return all, failed
}

// configured reports whether a source host with an API is configured.
func (c *forgesConfig) configured() bool {
	return c.GitHubClientID != "" || c.GitLabClientID != "" || c.GiteaClientID != ""
}

// problems checks the flags. ca is --agent-source-ca, which has been checked.
func (c *forgesConfig) problems(ca string) []error {
	var ck check
	forges, err := c.forges()
	ck.add(err)
	for _, kind := range []string{source.KindGitHub, source.KindGitLab, source.KindGitea} {
		f := forges[kind]
		name := "agent-" + kind
		ck.that((f.ClientID == "") == (f.ClientSecret == ""), "--%s-client-id and --%s-client-secret need each other", name, name)
		ck.that(f.ClientID != "" || f.WebhookSecret == "", "--%s-webhook-secret needs --%s-client-id", name, name)
	}
	github := forges[source.KindGitHub]
	ck.that(github.ClientID != "" || github.App == "" && github.PrivateKey == nil, "--agent-github-app and --agent-github-private-key-file need --agent-github-client-id")
	if err == nil && c.configured() {
		_, err = source.New(source.Config{CAFile: ca, Forges: forges, WorkDir: os.TempDir()})
		ck.err("agent-github-*, --agent-gitlab-*, --agent-gitea-*", err)
	}
	return ck.problems
}
