# SPDX-License-Identifier: Apache-2.0

# One command each: run, test, build, bench, lint. `make help` lists them all.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.release=$(VERSION)
TOOLS   := bin/tools
LINT    := $(TOOLS)/golangci-lint
SPEC    := $(TOOLS)/openapi/node_modules/.bin/spectral
AXE     := $(TOOLS)/axe/node_modules/axe-core/axe.min.js

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/assay, one static binary
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/assay ./cmd/assay

.PHONY: run
run: build ## simulated services send telemetry; see their scores
	@bin/assay demo

.PHONY: test
test: deps build lint test-go check-vuln ## everything: lint, tests with the race detector, end to end

# What the race detector has nothing to see in, and makes ten times slower: packages
# that start no goroutine, and e2e and faults, which drive a program that is built as
# it is released. What shares them between goroutines (engine, receive, rest, the stores)
# runs with it, and so does every part that cmd/assay joins. That and the providers
# alone would have the SDK of a language model, which takes a minute to compile,
# compiled a second time. Of the SQLite store, whose database is Go code as well, it looks
# at the tests with several goroutines.
PLAIN := $(addprefix assay/,cmd/assay e2e faults internal/dashboard/browsertest internal/delta internal/offline internal/report internal/rules internal/rules/catalog \
	internal/rules/runtimes internal/rules/semconv internal/rules/sensitive internal/rules/unit internal/store/codec internal/store/sqlite \
	internal/summary/provider internal/usage internal/wire internal/wire/otlpjson)

.PHONY: test-go
test-go: $(AXE) ## the Go tests alone; vet is one of the linters
	$(GO) test -vet=off -race -timeout 60m $(filter-out $(PLAIN),$(shell $(GO) list ./...))
	$(GO) test -vet=off -race -timeout 60m ./internal/store/sqlite -run '/(Concurrency|.*Race)$$'
	$(GO) test -vet=off -timeout 60m $(PLAIN) & plain=$$!; other=0; \
	$(GO) test -vet=off -timeout 60m ./e2e -args -store postgres || other=$$?; \
	wait $$plain && exit $$other

.PHONY: contract
contract: ## drive a server through every operation; print operations and statuses
	$(GO) test ./e2e -count=1 -run '^TestContract$$' -v

.PHONY: check-deploy
check-deploy: ## check deploy/ with a real Collector, the API types of Kubernetes, Compose and the Dockerfile's linter
	cd deploy/check && $(GO) test -count=1 ./...
	$(GO) test -count=1 ./deploy

.PHONY: deps
deps: ## install what the tests need, or say what is missing
	@scripts/deps

.PHONY: lint
lint: $(LINT) $(SPEC) ## formatting, linters, the walls between packages, house rules, the OpenAPI document
	$(LINT) fmt --diff
	$(LINT) run
	scripts/check
	$(SPEC) lint --fail-severity hint --ruleset tools/openapi/ruleset.yaml docs/openapi.yaml

.PHONY: fmt
fmt: $(LINT) ## format all code
	$(LINT) fmt

$(LINT): tools/go.mod
	cd tools && $(GO) build -o ../$(TOOLS)/ github.com/golangci/golangci-lint/v2/cmd/golangci-lint golang.org/x/vuln/cmd/govulncheck
	@touch $(LINT)

$(SPEC): tools/openapi/package.json tools/openapi/package-lock.json
	@mkdir -p $(TOOLS)/openapi
	@cp $^ $(TOOLS)/openapi/
	npm ci --prefix $(TOOLS)/openapi --ignore-scripts --no-audit --no-fund --loglevel error
	@touch $(SPEC)

$(AXE): tools/axe/package.json tools/axe/package-lock.json
	@mkdir -p $(TOOLS)/axe
	@cp $^ $(TOOLS)/axe/
	npm ci --prefix $(TOOLS)/axe --ignore-scripts --no-audit --no-fund --loglevel error
	@touch $(AXE)

.PHONY: screenshots
screenshots: ## pictures of every page of the dashboard, into bin/screenshots; three of them are the README's
	$(GO) run ./internal/dashboard/screenshots -readme docs/images

.PHONY: check-vuln
check-vuln: $(LINT) ## known vulnerabilities, where the database can be reached
	@scripts/vuln $(TOOLS)/govulncheck

.PHONY: bench
bench: build ## measure against pdata, a Collector and the targets; prints tables
	$(GO) run ./bench

.PHONY: faults
faults: deps ## break servers under load for half an hour; prove that nothing is lost (FAULTS='-run SQLite')
	$(GO) test ./faults -count=1 -v -timeout 2h -faults.long $(FAULTS)

.PHONY: fuzz
fuzz: ## run every fuzz target for a while (FUZZTIME=60s)
	scripts/fuzz $(or $(FUZZTIME),60s)

.PHONY: generate
generate: ## write generated code and documents anew
	$(GO) generate ./...
	$(GO) test ./internal/rules/catalog -run TestReference -update
	$(GO) test ./internal/rest -run OpenAPI -update
	$(GO) test ./internal/usage -run TestDocument -update

.PHONY: clean
clean: ## remove what was built
	rm -rf bin
