# SPDX-License-Identifier: Apache-2.0

# `make help` lists the targets.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.release=$(VERSION)
TOOLS   := bin/tools
LINT    := $(TOOLS)/golangci-lint
HELM    := $(TOOLS)/helm
SPEC    := $(TOOLS)/openapi/node_modules/.bin/spectral
ASTGREP := $(TOOLS)/ast-grep/ast-grep
AXE     := $(TOOLS)/axe/node_modules/axe-core/axe.min.js
OTEL_NODE := $(TOOLS)/otel-node/node_modules/@opentelemetry/api/package.json
MCP_NODE := $(TOOLS)/mcp-node/node_modules/@modelcontextprotocol/sdk/package.json

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The program, the linter and the tests without the race detector use the same variant of each
# package, which is compiled once.
VARIANT = CGO_ENABLED=0 GOFLAGS='$(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath'
# With less garbage collection the compiler takes a seventh less CPU time, and a fifth less with the race detector.
# Tests run with the usual collection.
COMPILE = GOGC=400 $(VARIANT) $(GO)
BUILD = $(COMPILE) build -ldflags '$(LDFLAGS)'

.PHONY: build
build: ## build bin/assay, a static binary
	$(BUILD) -o bin/assay ./cmd/assay

# The program with a clock and file sizes that the fault tests control.
.PHONY: build-faults
build-faults:
	$(BUILD) -tags faults -o bin/assay-faults ./cmd/assay

# Tests run these programs. Without the variables they build their own.
test-e2e test-e2e-postgres test-packages contract faults: export ASSAY_BINARY := $(CURDIR)/bin/assay
test-e2e test-e2e-postgres test-packages contract faults: export ASSAY_FAULTS_BINARY := $(CURDIR)/bin/assay-faults

.PHONY: run
run: build ## run a server with simulated services and print their scores
	@bin/assay demo

.PHONY: test
test: deps build ## run all checks: lint, tests with the race detector, end-to-end tests
	$(COMPILE) list -deps -test -export ./... >/dev/null
	$(BESIDE) test-e2e test-e2e-postgres lint test-packages check-vuln

# The tests of e2e mostly wait, so their two runs begin first, and the other targets run beside them, one after the other.
# The output of a target follows at its end, and every target runs even if another fails. All use the packages that the
# first line of test compiles.
BESIDE = +$(MAKE) --no-print-directory --jobs=3 --output-sync=target --keep-going

# Packages that run without the race detector, which makes them ten times slower: packages whose
# tests use one goroutine, and faults, which tests a release build in another process, as e2e does.
# Code that several goroutines share (engine, receive, rest, the stores) and every part that
# cmd/assay connects run with it. cmd/assay and the providers are excluded because a race build
# compiles the SDK of a language model again, which takes a minute.
PLAIN := $(addprefix assay/,bench cmd/assay faults internal/auth/seal internal/codebase/redact internal/dashboard/browsertest internal/delta internal/gittree internal/netguard internal/offline internal/report internal/requestid internal/review/boundary internal/review/check \
	internal/review/configfile internal/review/fix internal/review/instrument internal/review/instrumentation internal/review/patch internal/review/syntax internal/rules internal/rules/catalog internal/rules/remedy internal/rules/runtimes internal/rules/semconv \
	internal/rules/sensitive internal/rules/unit internal/safetext internal/store/codec internal/store/merge internal/store/paging internal/llm internal/usage internal/wire internal/wire/otlpjson)
# Of these packages, only the tests with several goroutines run with it. Their names end with Race, which scripts/check
# verifies; those of the store's subtests also with Concurrency.
RACES := internal/codebase/propose internal/review/migrate internal/review/treesitter internal/store/sqlite internal/trace
SOME := $(addprefix assay/,$(RACES))
# The packages with tests: go test would compile the others too.
TESTED = $(shell $(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)
# SQLite itself, C code translated to Go, and the compiler of wazero are compiled without the race detector, which makes
# them ten times slower: they access only their own memory, and their locks are those of package sync, which the detector sees.
# The linker keeps one copy of the code of a generic type, perhaps of such a package. So wazevo itself and wazevoapi, which use
# sync.Map, are compiled with the detector: otherwise it misses the synchronization of every sync.Map and reports false races.
WAZEVO := github.com/tetratelabs/wazero/internal/engine/wazevo
UNINSTRUMENTED := modernc.org/sqlite/lib $(WAZEVO)/ssa $(WAZEVO)/frontend $(WAZEVO)/backend/...
RACE = $(GO) test -toolexec 'env GOGC=400' -vet=off -race $(patsubst %,-gcflags=%=-race=0,$(UNINSTRUMENTED)) -timeout 4h
E2E = $(VARIANT) $(GO) test -vet=off -timeout 4h ./e2e
# These tests of e2e run once: they use no store, or as TestFix/node does, and differ in the programs that they change. Those in a
# browser walk through pages, which read only what the REST API reads; with PostgreSQL, the two others in a browser suffice.
ONCE := ^(TestANewUserInABrowser|TestARepositoryInABrowser|TestMigrate|TestRemedies|TestNodeSnippets|TestPythonSnippets|TestFixThatBreaksATest|TestInstrument|TestModelFix|TestModelInstruments)$$|^TestFix$$/^go$$

.PHONY: test-go
test-go: ## run only the Go tests (lint includes vet)
	$(BESIDE) test-e2e test-e2e-postgres test-packages

.PHONY: test-e2e test-e2e-postgres test-packages
test-e2e test-e2e-postgres test-packages: build build-faults $(AXE) $(OTEL_NODE) $(MCP_NODE)
test-e2e:
	$(E2E)
test-e2e-postgres:
	$(E2E) -skip '$(ONCE)' -args -store postgres
test-packages:
	@failed=0; \
	$(VARIANT) $(GO) test -vet=off -timeout 4h $(PLAIN) $(SOME) || failed=1; \
	$(RACE) $(filter-out assay/e2e $(PLAIN) $(SOME),$(TESTED)) || failed=1; \
	$(RACE) $(SOME) -run '^TestStore$$/(Concurrency|.*Race)$$|Race$$' || failed=1; \
	exit $$failed

.PHONY: contract
contract: build ## call every REST operation of a server; print operations and statuses
	$(VARIANT) $(GO) test ./e2e -count=1 -run '^TestContract$$' -v

.PHONY: check-deploy
check-deploy: $(HELM) ## validate deploy/ with a Collector, the API types of Kubernetes, Helm, Compose and a Dockerfile linter
	cd deploy/check && $(GO) test -count=1 ./...
	$(GO) test -count=1 ./deploy

.PHONY: release
release: $(HELM) ## build binaries, packages, image, chart, SBOMs and checksums into bin/release (VERSION=vX.Y.Z)
	VERSION=$(if $(filter command line environment,$(origin VERSION)),$(VERSION)) scripts/release

.PHONY: check-release
check-release: $(HELM) ## build a release twice, compare the bytes, install and start the artifacts (as root, on Linux)
	scripts/check-release

.PHONY: deps
deps: ## install the requirements of the tests as root, otherwise list them
	@scripts/deps

# golangci-lint run also checks the format, of all files that are built here. fmt checks the others: files for other
# systems or with tags, and those of other modules.
IGNORED = {{$$dir := .Dir}}{{range .IgnoredGoFiles}}{{$$dir}}/{{.}} {{end}}

.PHONY: lint
lint: $(LINT) $(SPEC) ## check modules, formatting, linters, package boundaries, house rules and the OpenAPI document
	$(GO) mod tidy -diff
	GOGC=400 GOMEMLIMIT=3GiB $(VARIANT) $(LINT) run
	$(LINT) fmt --diff $$(git ls-files '*/go.mod' ':!*/testdata/*' | xargs dirname) $$($(GO) list -f '$(IGNORED)' ./...)
	scripts/check
	$(SPEC) lint --fail-severity hint --ruleset tools/openapi/ruleset.yaml docs/openapi.yaml

.PHONY: fmt
fmt: $(LINT) ## format all code
	$(LINT) fmt

$(LINT): tools/go.mod
	cd tools && $(COMPILE) build -o ../$(TOOLS)/ github.com/golangci/golangci-lint/v2/cmd/golangci-lint golang.org/x/vuln/cmd/govulncheck
	@touch $(LINT)

# The programs of a release: helm, cyclonedx-gomod and image.
$(HELM): tools/release/go.mod $(wildcard tools/release/image/*.go)
	cd tools/release && $(GO) build -o ../../$(TOOLS)/ tool ./image
	@touch $(HELM)

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

$(OTEL_NODE): tools/otel-node/package.json tools/otel-node/package-lock.json
	@mkdir -p $(TOOLS)/otel-node
	@cp $^ $(TOOLS)/otel-node/
	npm ci --prefix $(TOOLS)/otel-node --ignore-scripts --no-audit --no-fund --loglevel error
	@touch $(OTEL_NODE)

$(MCP_NODE): tools/mcp-node/package.json tools/mcp-node/package-lock.json
	@mkdir -p $(TOOLS)/mcp-node
	@cp $^ $(TOOLS)/mcp-node/
	npm ci --prefix $(TOOLS)/mcp-node --ignore-scripts --no-audit --no-fund --loglevel error
	@touch $(MCP_NODE)

$(ASTGREP): tools/ast-grep/package.json tools/ast-grep/package-lock.json
	@mkdir -p $(TOOLS)/ast-grep
	@cp $^ $(TOOLS)/ast-grep/
	npm ci --prefix $(TOOLS)/ast-grep --ignore-scripts --no-audit --no-fund --loglevel error
	@cp $(TOOLS)/ast-grep/node_modules/@ast-grep/cli-*/ast-grep $(ASTGREP)

.PHONY: check-parse
check-parse: $(ASTGREP) $(SPEC) ## compare the calls found in files with those of ast-grep (DIR=directory)
	$(GO) test -tags astgrep ./internal/review/syntax -count=1 -run '^TestCallSites$$' -v -args -ast-grep $(CURDIR)/$(ASTGREP) -directory $(abspath $(or $(DIR),$(TOOLS)/openapi/node_modules))

GITEA_VERSION := v1.26.0
GITEA := bin/forge/gitea-$(GITEA_VERSION)
GITEA_FILES = $(shell $(GO) env GOMODCACHE)/code.gitea.io/gitea@$(GITEA_VERSION)

$(GITEA):
	@mkdir -p bin/forge
	$(GO) mod download code.gitea.io/gitea@$(GITEA_VERSION)
	cd $(GITEA_FILES) && CGO_ENABLED=1 $(GO) build -tags 'sqlite sqlite_unlock_notify' -ldflags '-s -w' -o $(CURDIR)/$(GITEA) .

.PHONY: check-forge
check-forge: build $(GITEA) ## review a repository of a real Gitea: OAuth, clone, webhook (builds Gitea; needs a C compiler)
	ASSAY_BINARY=$(CURDIR)/bin/assay $(GO) test -tags forge ./e2e -count=1 -run '^TestForge$$' -v -args -gitea $(CURDIR)/$(GITEA) -gitea-files $(GITEA_FILES)

.PHONY: screenshots
screenshots: ## take pictures of every dashboard page: bin/screenshots, docs/images
	$(GO) run ./internal/dashboard/screenshots -readme docs/images

.PHONY: check-vuln
check-vuln: $(LINT) ## check dependencies for known vulnerabilities, if the database is reachable
	@scripts/vuln $(TOOLS)/govulncheck

.PHONY: check-runtimes
check-runtimes: ## compare the table of supported runtimes with the package registries
	$(GO) test -tags registries -count=1 -v -run '^TestRegistries$$' ./internal/rules/runtimes

.PHONY: check-detector
check-detector: ## measure the sensitive data detector on text of other projects, from the package registries
	$(GO) test -tags published -count=1 -v -run '^TestPublished$$' ./internal/rules/sensitive

.PHONY: check-corpus
check-corpus: ## review and fix public modules, compare the findings with the verdicts in docs/checks.md; needs npm, git and python3
	$(GO) test -tags corpus -count=1 -v -timeout 1h -run '^TestCorpus$$' ./internal/review/fix

.PHONY: check-instrument
check-instrument: ## build the Go programs of the tests of `assay instrument` with the modules that it adds; needs the module proxy
	$(GO) test -tags registries -count=1 -v -timeout 1h -run '^TestGoRegistries$$' ./internal/review/instrument

.PHONY: bench
bench: build ## measure against pdata, a Collector and the targets; print tables
	$(GO) run ./bench

.PHONY: faults
faults: deps build build-faults ## inject faults under load for half an hour (FAULTS='-run SQLite')
	$(VARIANT) $(GO) test ./faults -count=1 -v -timeout 4h -faults.long $(FAULTS)

.PHONY: fuzz
fuzz: ## run every fuzz target (FUZZTIME=60s)
	scripts/fuzz $(or $(FUZZTIME),60s)

.PHONY: generate
generate: ## rewrite generated code and documents
	$(GO) generate ./...
	$(GO) test ./internal/rules/catalog -run TestReference -update
	$(GO) test ./internal/usage -run TestDocument -update
	$(GO) test ./internal/review/check -run TestDocument -update
	$(GO) test ./cmd/assay -run TestConfigurationDocument -update

.PHONY: grammars
grammars: ## build the WebAssembly module of the parsers again (clang-22, see scripts/grammars)
	scripts/grammars

.PHONY: clean
clean: ## remove build output
	rm -rf bin
