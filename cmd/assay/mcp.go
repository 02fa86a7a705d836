// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/signal"
	"strings"
	"syscall"

	"assay/internal/mcp"
)

// mcpPath is the path of the MCP server on the REST listener.
const mcpPath = "/mcp"

type mcpCmd struct {
	URL        string `name:"url" placeholder:"URL" help:"Base URL of the API of a server, such as https://assay.example.com/api. Default: none; the tools are those for local files."`
	APIKey     string `name:"api-key" placeholder:"KEY" help:"API key of the server, with the scope read, and agent for findings in code."`
	APIKeyFile string `name:"api-key-file" placeholder:"FILE" help:"File with the API key."`
}

func (c *mcpCmd) problems() []error {
	var ck check
	ck.that(c.APIKey == "" || c.APIKeyFile == "", "--api-key and --api-key-file contradict each other")
	ck.that(c.URL != "" || c.APIKey == "" && c.APIKeyFile == "", "--api-key and --api-key-file need --url")
	ck.that(c.URL == "" || c.APIKey != "" || c.APIKeyFile != "", "--url needs --api-key or --api-key-file")
	if c.URL != "" {
		ck.err("url", checkServiceURL(c.URL))
	}
	return ck.problems
}

// Run serves until standard input ends.
func (c *mcpCmd) Run(e *environment) error {
	cfg := mcp.Config{Version: version(), Local: &mcp.Local{Cache: grammarCache()}}
	if c.URL != "" {
		key := c.APIKey
		if c.APIKeyFile != "" {
			text, err := readBounded(c.APIKeyFile, maxSecretFile)
			if err != nil {
				return usageError{fmt.Errorf("--api-key-file: %w", err)}
			}
			key = strings.TrimSpace(string(text))
		}
		cfg.API = &mcp.API{URL: c.URL, Client: &http.Client{CheckRedirect: noRedirect}, Authorization: "Bearer " + key}
	}
	ctx, stop := signal.NotifyContext(e.ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := mcp.New(cfg).Run(ctx, mcp.Stdio(e.stdin, e.stdout))
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// noRedirect keeps the credential at the host that it is for.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
