# All targets work in a fresh clone with go, make, git and a POSIX shell. Make builds all other tools from pinned Go modules
# into bin/.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

BIN := $(CURDIR)/bin
GOLANGCI_LINT := $(BIN)/golangci-lint
CONTROLLER_GEN := $(BIN)/controller-gen
GINKGO := $(BIN)/ginkgo
GOVULNCHECK := $(BIN)/govulncheck
VALE := $(BIN)/vale
GREMLINS := $(BIN)/gremlins
APIDIFF := $(BIN)/apidiff
GORELEASER := $(BIN)/goreleaser
CYCLONEDX := $(BIN)/cyclonedx-gomod
KUBEBUILDER := $(BIN)/kubebuilder
HELM := $(BIN)/helm

# MODULES contain Go code of this project. TOOL_MODULES only pin the versions of tools. hack/tools/goreleaser is not among them, because only
# a release downloads its modules.
EXAMPLE_MODULES := $(patsubst %/go.mod,%,$(wildcard examples/*/go.mod))
CONTRIB_MODULES := $(patsubst %/go.mod,%,$(wildcard contrib/*/go.mod))
# The Makefiles of these examples generate their files.
EXAMPLE_PROJECTS := $(patsubst %/Makefile,%,$(wildcard examples/*/Makefile))
MODULES := . hack/controlplane $(EXAMPLE_MODULES) $(CONTRIB_MODULES)
TOOL_MODULES := hack/tools hack/tools/golangci-lint hack/tools/govulncheck hack/tools/vale hack/tools/gremlins hack/tools/apidiff hack/tools/helm

TESTFLAGS ?=
# Tests on API servers mostly wait, so at least four packages run in parallel.
PARALLEL ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1); if [ "$$n" -gt 4 ]; then echo "$$n"; else echo 4; fi)
BENCHFLAGS ?=
KOPFFLAGS ?=
BASE ?= HEAD
FUZZTIME ?= 10s
MUTATE ?= ./internal/cause ./internal/plan
SIMULATIONS ?= 5000
SEED ?=
ROTATION ?= 2m
HOURS ?= 2
OBJECTS ?= 1000
PAYLOAD ?= 16384
KUBE ?= 1.34 1.35 1.36 1.37
SOAKFLAGS ?=
SERVER ?= memory
# The target that builds a real API server, if SERVER asks for it.
real-server = $(if $(filter real,$(SERVER)),controlplane,$(if $(filter-out memory,$(SERVER)),$(error SERVER=$(SERVER): use memory or real)))

##@ First steps

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## "; print "make <target>" } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: $(real-server) ## Run an operator step by step on an API server in memory; SERVER=real uses kube-apiserver, KEEP=1 leaves it running
	go build -o $(BIN)/show-example ./hack/example
	@exec $(BIN)/show-example -demo $(if $(real-server),-cluster=own) $(if $(filter-out 0 no false,$(KEEP)),-keep)

.PHONY: cluster
cluster: $(real-server) ## Run an API server in memory for operators until Ctrl-C; SERVER=real uses kube-apiserver, CRDS="config/crd" installs CRDs
	go build -o $(BIN)/run-cluster ./hack/cluster
	@exec $(BIN)/run-cluster $(if $(real-server),-real) -kubeconfig $(BIN)/cluster.kubeconfig $(CRDS)

# The command first checks the arguments. Make then builds the control plane only if the example needs it.
.PHONY: example
example: ## Run an example: NAME=07-subhandlers ARGS="-flag", or list them without NAME; CLUSTER=kubeconfig [CONTEXT=x] uses the cluster of kubectl
	@go build -o $(BIN)/show-example ./hack/example
	@$(show-example) -check $(quoted-name) $(if $(NAME),,>/dev/null)
	@$(if $(NAME),$(if $(filter kubeconfig,$(CLUSTER)),,$(MAKE) --no-print-directory controlplane))
	@exec $(show-example) $(quoted-name) $(ARGS)

show-example = $(BIN)/show-example $(if $(CLUSTER),-cluster='$(CLUSTER)') $(if $(CONTEXT),-context='$(CONTEXT)')
quoted-name = $(if $(NAME),'$(NAME)')

##@ Tests

# One half mostly waits for API servers, and the other one computes, so they run at the same time.
.PHONY: test
test: controlplane $(GINKGO) $(CONTROLLER_GEN) ## Run all tests, including those on a real API server; TESTFLAGS="-count=20 -run X" adds flags of go test
	@$(MAKE) --no-print-directory --keep-going -j2 test-servers test-memory

# The dots of Ginkgo would mix with the lines of test-memory, so they are shown afterwards.
.PHONY: test-servers
test-servers: controlplane $(GINKGO) $(CONTROLLER_GEN) ## Run the half of the tests that start API servers: end-to-end tests, examples and commands
	@status=0; \
	$(if $(TESTFLAGS),,log=$$(mktemp); $(e2e) >"$$log" 2>&1 || status=1; cat "$$log"; rm -f "$$log"; )\
	$(mutations) go test -p $(PARALLEL) $(tests) $(if $(TESTFLAGS),./test/e2e) ./examples ./hack/example $$(go list ./... | grep -vE $(tested-in-memory)) || status=1; \
	exit $$status

.PHONY: test-memory
test-memory: controlplane $(CONTROLLER_GEN) ## Run the half of the tests that mostly compute: packages and simulations, and all other modules
	@status=0; \
	go test $(tests) $(in-memory) || status=1; \
	for module in $(EXAMPLE_MODULES) $(CONTRIB_MODULES); do \
		echo "cd $$module && go test ./..."; \
		(cd $$module && go test $(tests) ./...) || status=1; \
	done; exit $$status

# These packages start first, because they are the slowest. Most of them run operators in memory, in virtual time.
in-memory := ./test/peering ./pkg/webhooks ./test/simulation/... ./test/reconcilers ./test/soak ./pkg/... ./internal/...
tested-in-memory := '/(pkg|internal)/|/test/(e2e|peering|reconcilers|soak|simulation.*)$$'

# The race detector slows tests down, and everything has to be compiled once more. So it is a target of its own, for the packages whose goroutines share
# memory. Timers of a synctest bubble share one context of the race detector, so a test process crashes if two threads run them
# (https://go.dev/issue/78156). With one thread they can't. Data races are found all the same, and packages still run side by side.
.PHONY: test-race
test-race: race = -race
test-race: controlplane $(GINKGO) ## Run the tests with the race detector, which needs a C compiler
	@status=0; \
	$(e2e) || status=1; \
	go test -race -cpu=1 $(tests) $(in-memory) || status=1; \
	for module in $(CONTRIB_MODULES); do \
		echo "cd $$module && go test -race ./..."; \
		(cd $$module && go test -race -cpu=1 $(tests) ./...) || status=1; \
	done; exit $$status

e2e = $(mutations) $(GINKGO) run $(race) --procs=4 --randomize-all --output-interceptor-mode=none --no-color --timeout=40m ./test/e2e
# The engine shares objects with the cache. With this variable, client-go panics if an object in the cache is changed.
mutations = KUBE_CACHE_MUTATION_DETECTOR=true
# Ginkgo runs the specs of test/e2e in four processes, each with its own control plane. go test would run them one after another. golangci-lint
# runs vet.
tests = -vet=off -shuffle=on -timeout 40m $(TESTFLAGS)

.PHONY: controller-manager
controller-manager: ## Build kube-controller-manager, which test/garbagecollection requires
	@cd hack/controlplane && go run . -out ../../bin/controlplane kube-controller-manager

.PHONY: test-unit
test-unit: ## Run the tests that need no API server, in seconds after the compilation
	go test -short -shuffle=on -timeout 5m $(TESTFLAGS) ./pkg/... ./internal/... ./cmd/... ./test/layering/... ./test/parity/... ./test/simulation/...

# The packages with changed Go files, compared with BASE, including uncommitted and new files. The go command finds the packages that contain them.
changed = $$({ git diff --name-only --diff-filter=d $(BASE) -- '*.go'; git ls-files -o --exclude-standard -- '*.go'; } | xargs -r -n1 dirname | sort -u | sed 's|^|./|' | \
	while read -r folder; do go list "$$folder" >/dev/null 2>&1 && echo "$$folder" || echo "check: skipping $$folder, which belongs to another module" >&2; done)

.PHONY: check
check: $(GOLANGCI_LINT) $(VALE) ## Test and lint only what you have changed, in a minute or two, without an API server; BASE=main compares with a branch
	@packages="$(changed)"; \
	if [ -z "$$packages" ]; then echo "check: no Go package of the root module has changed since $(BASE)"; \
	else echo "check:" $$packages; go test -short -vet=off -timeout 5m $$packages && $(GOLANGCI_LINT) run $$packages; fi && go run ./hack/prose -vale $(VALE)

.PHONY: test-kopf
test-kopf: controlplane ## Run the tests beside kopf, from the package index of Python; SKIPPED without Python 3.11, KOPFFLAGS=-quick needs three minutes
	@sh hack/python/install.sh $(BIN) kopf-1.44 kopf-1.45 || { [ $$? = 75 ] && exit; exit 1; }; \
	go test -count=1 -timeout 30m ./test/python -kopf=$(BIN) $(KOPFFLAGS)

.PHONY: test-matrix
test-matrix: $(GINKGO) ## Run the end-to-end and conformance tests on several releases of Kubernetes; KUBE="1.35 1.37" selects them
	@set -e; for release in $(KUBE); do \
		(cd hack/controlplane && env -u KUBEBUILDER_ASSETS go run . -kubernetes $$release -out $(BIN)/controlplane-$$release); \
		echo "test-matrix: Kubernetes $$release"; \
		KUBEBUILDER_ASSETS=$(BIN)/controlplane-$$release $(GINKGO) run --procs=4 --output-interceptor-mode=none --no-color --timeout=40m ./test/e2e; \
		KUBEBUILDER_ASSETS=$(BIN)/controlplane-$$release go test -count=1 -timeout 40m ./test/simulation/conformance; \
	done

.PHONY: test-shards
test-shards: controlplane $(GINKGO) ## Run the tests of shards with many objects; OBJECTS=1000 sets their number
	KOPF_E2E_SHARDED_OBJECTS=$(OBJECTS) $(GINKGO) run -v --focus='Shards, as processes' --timeout=90m ./test/e2e

.PHONY: test-shards-memory
test-shards-memory: controlplane $(GINKGO) ## Compare the memory of shards with one process; OBJECTS=10000 PAYLOAD=16384 set the number and the size of objects
	KOPF_E2E_SHARDED_OBJECTS=$(OBJECTS) KOPF_E2E_SHARDED_PAYLOAD=$(PAYLOAD) $(GINKGO) run -v --focus='need memory only for their own objects' --timeout=90m ./test/e2e

.PHONY: test-planted
test-planted: ## Build the simulations with each planted bug; they must find it
	go test -count=1 -timeout 60m ./test/simulation -run 'FindPlantedBugs$$' -planted -v

.PHONY: test-rights
test-rights: controlplane ## Remove each permission of each example in turn; the operator must name exactly it
	go test -timeout 60m ./examples -run '^TestExamples_RemovedPermissions$$' -remove-permissions -v

.PHONY: test-helm
test-helm: controlplane $(KUBEBUILDER) $(HELM) $(CONTROLLER_GEN) ## Let kubebuilder write a Helm chart of the example, and install it on a real API server
	go test -count=1 -timeout 20m ./examples -run '^TestKubebuilder_HelmChart$$' -helm-tools=$(BIN) -v

.PHONY: simulate
simulate: ## Run random scenarios in virtual time; SIMULATIONS=20000 sets their number, SEED=17 repeats one with its log
	go test -timeout 60m ./test/simulation -run '^TestSimulations$$' -simulations=$(SIMULATIONS) $(if $(SEED),-seed=$(SEED) -v)

.PHONY: simulate-shards
simulate-shards: ## Run random scenarios with several shards in virtual time; SIMULATIONS=10000 sets their number, SEED=17 repeats one with its log
	go test -timeout 120m ./test/simulation -run '^TestShards_EachObjectHasOneOwner$$' -shards=$(SIMULATIONS) $(if $(SEED),-shard=$(SEED) -v)

.PHONY: simulate-rollouts
simulate-rollouts: ## Run random rollouts of revisions in virtual time; SIMULATIONS=10000 sets their number, SEED=17 repeats one with its log
	go test -timeout 120m ./test/simulation/rollout -run '^TestRollouts$$' -simulations=$(SIMULATIONS) $(if $(SEED),-seed=$(SEED) -v)

# The test derives all faults from reference runs of the scenarios. At the end, it prints the coverage of the engine.
.PHONY: explore
explore: ## Run small operators with every fault at every write, stale lists and missed events; PLAN='create: crash-after@3' selects one plan
	@profile=$$(mktemp); \
	go test -count=1 -timeout 60m -v ./test/simulation/explore -run '^TestExplore$$' -all $(if $(PLAN),-plan='$(PLAN)') \
		-coverpkg=./internal/engine -coverprofile="$$profile" | grep -v '^ *=== '; status=$$?; \
	rm -f "$$profile"; exit $$status

.PHONY: rotate
rotate: controlplane ## Send admission requests to three replicas whose certificates change every few seconds; ROTATION=10m sets the duration
	go test -race -timeout 60m ./pkg/webhooks -run '^TestServer_ReplicasUnderLoad$$' -v -rotation=$(ROTATION)

.PHONY: soak
soak: controlplane ## Run operators for hours on a real API server with faults; HOURS=24 sets the duration, SOAKFLAGS=-seed=7 another schedule
	go test -timeout 0 ./test/soak -run '^TestSoak$$' -v -hours=$(HOURS) $(SOAKFLAGS)

.PHONY: fuzz
fuzz: ## Run each fuzz test for a short time; FUZZTIME=10m sets the time
	@set -e; listing=$$(go test -short -list '^Fuzz' ./pkg/... ./internal/...); \
	echo "$$listing" | awk '/^Fuzz/ { names[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, names[i]; n = 0 }' | \
	while read -r package name; do \
		echo "$$package $$name"; \
		go test -short -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$package" || exit 1; \
	done

# gremlins does not change the conditions of switch cases, because Go does not measure their coverage. It uses one worker, because each
# mutant links a test binary.
.PHONY: mutate
mutate: $(GREMLINS) ## Change the code and report changes that no test detects (LIVED), in minutes; MUTATE=./internal/commit selects another package
	@set -e; for package in $(MUTATE); do \
		echo "gremlins unleash $$package"; \
		GOFLAGS=-ldflags=-s $(GREMLINS) unleash $$package --workers 1 --timeout-coefficient 20 --invert-logical; \
	done

.PHONY: bench
bench: controlplane ## Compare with a plain reconciler in about an hour, or in two minutes with BENCHFLAGS=-quick
	go test -count=1 -v -timeout 2h -run '^TestBench$$' ./test/bench -measure $(BENCHFLAGS)
	go test -run '^$$' -bench . -benchmem ./internal/engine ./internal/essence ./internal/match ./pkg/daemons ./pkg/diff ./pkg/webhooks

.PHONY: bench-kopf
bench-kopf: controlplane ## Compare with kopf, which runs in Python, without and with uvloop; SKIPPED without Python 3.11
	@sh hack/python/install.sh $(BIN) kopf-1.45 kopf-1.45-uvloop || { [ $$? = 75 ] && exit; exit 1; }; \
	for environment in kopf-1.45 kopf-1.45-uvloop; do \
		echo "bench-kopf: $$environment"; \
		go test -count=1 -v -timeout 2h -run '^TestBench$$' ./test/bench -measure -against plain,kopf -kopf=$(BIN)/$$environment $(BENCHFLAGS) || exit 1; \
	done

##@ Code

.PHONY: lint
lint: $(GOLANGCI_LINT) lint-prose ## Run golangci-lint in all modules, and check the language of documentation, comments and messages
	@status=0; for module in $(MODULES); do \
		echo "cd $$module && golangci-lint run"; \
		(cd $$module && $(GOLANGCI_LINT) run ./...) || status=1; \
	done; exit $$status

.PHONY: lint-prose
lint-prose: $(VALE) ## Check the language of documentation, Go comments and messages
	@go run ./hack/prose -vale $(VALE) $(if $(COMMITS_SINCE),-commits-since $(COMMITS_SINCE))

.PHONY: prose-update
prose-update: $(VALE) ## Remove files from .vale/pending that follow the rules now
	@go run ./hack/prose -vale $(VALE) -update

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## Format the code and sort its imports
	$(GOLANGCI_LINT) fmt ./...

# The markers of controller-gen identify the folders with API types.
api-folders = find $(1) -name '*.go' -exec grep -l '^// *+kubebuilder:object:' {} + | sed 's|/[^/]*$$||' | sort -u

.PHONY: generate
generate: $(CONTROLLER_GEN) ## Write the DeepCopy methods of the API types
	@set -e; for folder in $$($(call api-folders,pkg $(plain-examples) test)); do \
		echo "controller-gen object: $$folder"; \
		(cd $$folder && $(CONTROLLER_GEN) object paths=.); \
	done
	@$(call each-project,generate)

.PHONY: manifests
manifests: $(CONTROLLER_GEN) ## Write the CRDs of peering and of the examples into config/crd
	@set -e; echo "controller-gen crd: config/crd"; \
	$(CONTROLLER_GEN) crd paths=./pkg/peering/v1 output:crd:dir=config/crd; \
	for example in $(plain-examples); do \
		if [ -n "$$($(call api-folders,$$example))" ]; then \
			echo "controller-gen crd: $$example/config/crd"; \
			(cd $$example && $(CONTROLLER_GEN) crd paths=./... output:crd:dir=config/crd); \
		fi; \
	done
	@$(call each-project,manifests)

.PHONY: api
api: ## Write docs/api.txt, the list of exported names
	go run ./hack/api > docs/api.txt

plain-examples = $(filter-out $(EXAMPLE_PROJECTS),$(patsubst %/main.go,%,$(wildcard examples/*/main.go)))
each-project = set -e; for project in $(EXAMPLE_PROJECTS); do \
	echo "make $(1): $$project"; $(MAKE) --no-print-directory -C $$project $(1) CONTROLLER_GEN=$(CONTROLLER_GEN) >/dev/null; \
	done

# The fonts of the machine change the pictures, so "make verify" does not compare them.
.PHONY: screenshots
screenshots: ## Take the screenshots of the guide with Chromium; CHROMIUM=path selects the browser
	go test -count=1 ./internal/parts/statuspage -run '^TestPage$$/^has_screenshots' -update-screenshots -v

##@ Checks

.PHONY: verify
verify: verify-fmt verify-tidy verify-generated verify-api verify-licenses verify-vulnerabilities ## Check formatting, go.mod, generated files, docs/api.txt, licenses and vulnerabilities

.PHONY: verify-fmt
verify-fmt: $(GOLANGCI_LINT)
	@if $(GOLANGCI_LINT) fmt --diff ./...; then echo "verify: the formatting is up to date"; \
	else echo "verify: the files above are not formatted; run 'make fmt' and commit the result" >&2; exit 1; fi

.PHONY: verify-tidy
verify-tidy:
	@status=0; for module in $(MODULES) $(TOOL_MODULES); do \
		(cd $$module && go mod tidy -diff) || { echo "verify: $$module/go.mod is not tidy; run 'cd $$module && go mod tidy' and commit the result" >&2; status=1; }; \
	done; \
	if [ $$status = 0 ]; then echo "verify: the go.mod files are up to date"; else exit 1; fi

# The target compares the work tree before and after the generation, including uncommitted files. It does not change the index of git.
.PHONY: verify-generated
verify-generated: $(CONTROLLER_GEN)
	@set -e; \
	if ! git rev-parse --is-inside-work-tree >/dev/null; then \
		echo "verify: cannot find changed files outside of a git clone; run it in a git clone" >&2; exit 1; \
	fi; \
	snapshot() { rm -f $(BIN)/verify.index; GIT_INDEX_FILE=$(BIN)/verify.index git add -A . && GIT_INDEX_FILE=$(BIN)/verify.index git write-tree; }; \
	before=$$(snapshot); \
	$(MAKE) --no-print-directory generate manifests; \
	after=$$(snapshot); rm -f $(BIN)/verify.index; \
	if [ "$$before" = "$$after" ]; then echo "verify: the generated files are up to date"; \
	else git --no-pager diff "$$before" "$$after"; \
		echo "verify: the generated files were out of date and have been regenerated; commit them" >&2; exit 1; fi

# The target compares the exported names under pkg/ with the last release, which is not that of the checked-out commit. A line of the changelog that begins with *Breaking* and is newer than
# the release permits incompatible changes. VERSIONING.md describes the allowed changes.
.PHONY: verify-api
verify-api: $(APIDIFF)
	@go run ./hack/api -check docs/api.txt && echo "verify: docs/api.txt is up to date"
	@set -e; this=$$(git describe --tags --exact-match --match 'v*' 2>/dev/null) || true; \
	tag=$$(git describe --tags --abbrev=0 --match 'v*' --exclude "$$this" 2>/dev/null) || true; \
	if [ -z "$$tag" ]; then echo "verify: no release exists yet, so the exported API is not compared"; exit; fi; \
	old=$$(mktemp -d); trap 'rm -rf "$$old"' EXIT; \
	git archive "$$tag" go.mod go.sum pkg internal | tar -xf - -C "$$old"; \
	(cd "$$old" && $(APIDIFF) -m -w old.api $(PUBLIC)); \
	changes=$$($(APIDIFF) -m -incompatible "$$old/old.api" $(PUBLIC)); \
	if [ -z "$$changes" ]; then echo "verify: the exported API is compatible with $$tag"; exit; fi; \
	echo "verify: incompatible changes of the exported API since $$tag:"; echo "$$changes"; \
	git diff --unified=0 "$$tag" -- CHANGELOG.md | grep -q '^+\(- \)\{0,1\}\*Breaking\*' || { \
		echo "verify: undo them, or add a line that begins with *Breaking* to the changelog" >&2; exit 1; }

PUBLIC := github.com/kopf-runtime/kopf-runtime/pkg

.PHONY: verify-licenses
verify-licenses:
	@go build -o $(BIN)/licenses ./hack/licenses
	@set -e; for module in $(filter-out hack/controlplane,$(MODULES)); do (cd $$module && printf 'verify: %s: ' "$$module" && $(BIN)/licenses); done

.PHONY: verify-vulnerabilities
verify-vulnerabilities: $(GOVULNCHECK) ## Check for known vulnerabilities in called functions; SKIPPED without access to https://vuln.go.dev, unless REQUIRE_VULNERABILITIES=1
	@go run ./hack/vulnerabilities $(GOVULNCHECK) $(filter-out hack/controlplane,$(MODULES))

##@ Releases

.PHONY: release-snapshot
release-snapshot: $(GORELEASER) $(CYCLONEDX) ## Build the archives of a release into bin/release; the first time takes about ten minutes
	PATH="$(BIN):$$PATH" $(GORELEASER) release --snapshot --clean --skip=sign

.PHONY: release
release: $(GORELEASER) $(CYCLONEDX)
	PATH="$(BIN):$$PATH" $(GORELEASER) release --clean

##@ Prerequisites, which other targets build when needed

.PHONY: controlplane
controlplane: ## Build etcd, kube-apiserver and kubectl into bin/controlplane, or use those in KUBEBUILDER_ASSETS
	@cd hack/controlplane && go run . -out ../../bin/controlplane

.PHONY: tools
tools: $(GOLANGCI_LINT) $(CONTROLLER_GEN) $(GINKGO) $(VALE) ## Build the pinned tools into bin/

# $(call build-tool,package) builds a package in the module of the first prerequisite.
define build-tool
	@echo "building bin/$(@F) from $(<D)$(if $(filter golangci-lint,$(@F)), (about 2 minutes on two cores when nothing is cached))"
	@GOWORK=off GOFLAGS=-mod=readonly go build -C $(<D) -buildvcs=false -o $@ $(1)
	@touch $@
endef

$(GOLANGCI_LINT): hack/tools/golangci-lint/go.mod hack/tools/golangci-lint/go.sum
	$(call build-tool,github.com/golangci/golangci-lint/v2/cmd/golangci-lint)

$(CONTROLLER_GEN): hack/tools/go.mod hack/tools/go.sum
	$(call build-tool,sigs.k8s.io/controller-tools/cmd/controller-gen)

$(GOVULNCHECK): hack/tools/govulncheck/go.mod hack/tools/govulncheck/go.sum
	$(call build-tool,golang.org/x/vuln/cmd/govulncheck)

$(VALE): hack/tools/vale/go.mod hack/tools/vale/go.sum
	$(call build-tool,github.com/vale-cli/vale/v3/cmd/vale)

$(GREMLINS): hack/tools/gremlins/go.mod hack/tools/gremlins/go.sum
	$(call build-tool,github.com/go-gremlins/gremlins/cmd/gremlins)

$(APIDIFF): hack/tools/apidiff/go.mod hack/tools/apidiff/go.sum
	$(call build-tool,golang.org/x/exp/cmd/apidiff)

$(GORELEASER): hack/tools/goreleaser/go.mod hack/tools/goreleaser/go.sum
	$(call build-tool,github.com/goreleaser/goreleaser/v2)

$(CYCLONEDX): hack/tools/goreleaser/go.mod hack/tools/goreleaser/go.sum
	$(call build-tool,github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod)

$(KUBEBUILDER): hack/tools/helm/go.mod hack/tools/helm/go.sum
	$(call build-tool,sigs.k8s.io/kubebuilder/v4)

$(HELM): hack/tools/helm/go.mod hack/tools/helm/go.sum
	$(call build-tool,helm.sh/helm/v4/cmd/helm)

$(GINKGO): hack/tools/go.mod hack/tools/go.sum
	$(call build-tool,github.com/onsi/ginkgo/v2/ginkgo)

.PHONY: clean
clean: ## Remove bin and .cache
	rm -rf bin .cache
