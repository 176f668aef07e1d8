# Everything here works from a fresh clone with go, make, git and a POSIX shell: what else is needed
# is built from pinned Go modules into bin/.

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

# Modules that carry Go code of ours, and those that only pin tools.
EXAMPLE_MODULES := $(patsubst %/go.mod,%,$(wildcard examples/*/go.mod))
# Examples with a Makefile of their own generate by that.
EXAMPLE_PROJECTS := $(patsubst %/Makefile,%,$(wildcard examples/*/Makefile))
MODULES := . hack/controlplane $(EXAMPLE_MODULES)
TOOL_MODULES := hack/tools hack/tools/golangci-lint hack/tools/govulncheck hack/tools/vale hack/tools/gremlins

# The race detector needs cgo; the go command switches cgo off where there is no C compiler.
RACE ?= $(if $(filter 1,$(shell go env CGO_ENABLED)),-race)
TESTFLAGS ?=
# Tests of operators mostly wait: more packages at once than there are processors, the long ones first.
PARALLEL ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1); if [ "$$n" -gt 4 ]; then echo "$$n"; else echo 4; fi)
LONG := ./hack/example ./examples ./test/peering ./pkg/webhooks
BENCHFLAGS ?=
FUZZTIME ?= 10s
MUTATE ?= ./internal/cause ./internal/plan
SIMULATIONS ?= 5000
SEED ?=
ROTATION ?= 2m
HOURS ?= 2
SOAKFLAGS ?=

##@ To begin with

.PHONY: help
help: ## This list
	@awk 'BEGIN { FS = ":.*## "; print "make <target>" } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: controlplane ## An operator at work on a real API server; KEEP=1 leaves it running
	go build -o $(BIN)/show-example ./hack/example
	@exec $(BIN)/show-example -demo $(if $(filter-out 0 no false,$(KEEP)),-keep)

.PHONY: cluster
cluster: controlplane ## An API server to try operators out on, until Ctrl-C; CRDS="config/crd" installs some
	go build -o $(BIN)/run-cluster ./hack/cluster
	@exec $(BIN)/run-cluster -kubeconfig $(BIN)/cluster.kubeconfig $(CRDS)

# What only the control plane of its own needs is built only for that, and not before it is known that there is such an example.
.PHONY: example
example: ## An example at work: NAME=07-subhandlers (without, their list); ARGS="-flag" for it; CLUSTER=kubeconfig [CONTEXT=x]: on that of kubectl
	@go build -o $(BIN)/show-example ./hack/example
	@$(show-example) -check $(quoted-name) $(if $(NAME),,>/dev/null)
	@$(if $(NAME),$(if $(filter kubeconfig,$(CLUSTER)),,$(MAKE) --no-print-directory controlplane))
	@exec $(show-example) $(quoted-name) $(ARGS)

show-example = $(BIN)/show-example $(if $(CLUSTER),-cluster='$(CLUSTER)') $(if $(CONTEXT),-context='$(CONTEXT)')
quoted-name = $(if $(NAME),'$(NAME)')

##@ Tests

.PHONY: test
test: controlplane $(GINKGO) note-race ## All tests, those on a real API server too; TESTFLAGS="-count=20 -run X" adds flags of go test
	@status=0; \
	$(if $(TESTFLAGS),,$(mutations) $(GINKGO) run $(RACE) --procs=4 --randomize-all --output-interceptor-mode=none --no-color --timeout=40m ./test/e2e || status=1; )\
	go test $(RACE) $(tests) $(LONG) $(if $(TESTFLAGS),./...,$$(go list ./... | grep -v '/test/e2e$$')) || status=1; \
	$(if $(RACE),$(mutations) go test $(tests) ./test/simulation || status=1; )\
	for module in $(EXAMPLE_MODULES); do \
		echo "cd $$module && go test ./..."; \
		(cd $$module && go test $(RACE) $(tests) ./...) || status=1; \
	done; exit $$status

# The specs of test/e2e run in four processes, each with a control plane; go test would run them one after the other.
# Simulations take a part of their seeds with the race detector, and all of them without.
# The engine shares objects with the cache. client-go then panics if an object in the cache is changed.
mutations = KUBE_CACHE_MUTATION_DETECTOR=true
tests = -p $(PARALLEL) -shuffle=on -timeout 40m $(TESTFLAGS)

.PHONY: controller-manager
controller-manager: ## Build kube-controller-manager too: test/garbagecollection needs it, and skips itself without
	@cd hack/controlplane && go run . -out ../../bin/controlplane kube-controller-manager

.PHONY: test-unit
test-unit: note-race ## Only the tests that need no API server: seconds, once compiled
	go test $(RACE) -short -shuffle=on -timeout 5m $(TESTFLAGS) ./pkg/... ./internal/... ./cmd/... ./test/layering/... ./test/parity/... ./test/simulation/...

.PHONY: simulate
simulate: ## Random scenarios in virtual time; SIMULATIONS=20000 for more of them, SEED=17 for this one again with its log
	go test -timeout 60m ./test/simulation -run '^TestSimulations$$' -simulations=$(SIMULATIONS) $(if $(SEED),-seed=$(SEED) -v)

# All faults that follow from the reference runs of the scenarios; what of the engine they have covered is printed at the end.
.PHONY: explore
explore: ## Small operators under every fault at every write, old lists and missed events; PLAN='create: crash-after@3' for one plan
	@profile=$$(mktemp); \
	go test -count=1 -timeout 60m -v ./test/simulation/explore -run '^TestExplore$$' -all $(if $(PLAN),-plan='$(PLAN)') \
		-coverpkg=./internal/engine -coverprofile="$$profile" | grep -v '^ *=== '; status=$$?; \
	rm -f "$$profile"; exit $$status

.PHONY: rotate
rotate: controlplane note-race ## Admissions on three replicas whose certificates change every few seconds; ROTATION=10m for longer
	go test $(RACE) -timeout 60m ./pkg/webhooks -run '^TestServer_ReplicasUnderLoad$$' -v -rotation=$(ROTATION)

.PHONY: soak
soak: controlplane ## Operators for hours on a real API server, with faults; HOURS=24 for longer, SOAKFLAGS=-seed=7 for another schedule
	go test -timeout 0 ./test/soak -run '^TestSoak$$' -v -hours=$(HOURS) $(SOAKFLAGS)

.PHONY: note-race
note-race:
	@$(if $(RACE),:,echo "note: the tests run without the race detector: it needs a C compiler (gcc), and none was found")

.PHONY: fuzz
fuzz: ## Each fuzz test for a short while, without any server; FUZZTIME=10m for a long one
	@set -e; listing=$$(go test -short -list '^Fuzz' ./pkg/... ./internal/...); \
	echo "$$listing" | awk '/^Fuzz/ { names[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, names[i]; n = 0 }' | \
	while read -r package name; do \
		echo "$$package $$name"; \
		go test -short -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$package" || exit 1; \
	done

# gremlins does not try the conditions of switch cases: Go does not measure their coverage. One worker: each mutant links a test binary.
.PHONY: mutate
mutate: $(GREMLINS) ## Change the code and report changes that no test finds (LIVED), in minutes; MUTATE=./internal/commit for another package
	@set -e; for package in $(MUTATE); do \
		echo "gremlins unleash $$package"; \
		GOFLAGS=-ldflags=-s $(GREMLINS) unleash $$package --workers 1 --timeout-coefficient 20 --invert-logical; \
	done

.PHONY: bench
bench: controlplane ## Measure against a plain reconciler in less than an hour, or in two minutes with BENCHFLAGS=-quick
	go test -count=1 -v -timeout 2h -run '^TestBench$$' ./test/bench -measure $(BENCHFLAGS)
	go test -run '^$$' -bench . -benchmem ./internal/engine ./internal/essence ./internal/match ./pkg/daemons ./pkg/diff ./pkg/webhooks

##@ Code

.PHONY: lint
lint: $(GOLANGCI_LINT) lint-prose ## What .golangci.yml asks for, in all modules, and the language of documentation, comments and messages
	@status=0; for module in $(MODULES); do \
		echo "cd $$module && golangci-lint run"; \
		(cd $$module && $(GOLANGCI_LINT) run ./...) || status=1; \
	done; exit $$status

.PHONY: lint-prose
lint-prose: $(VALE) ## The language of documentation, Go comments and messages: .vale.ini, hack/prose
	@go run ./hack/prose -vale $(VALE) $(if $(COMMITS_SINCE),-commits-since $(COMMITS_SINCE))

.PHONY: prose-update
prose-update: $(VALE) ## Remove files from .vale/pending that follow the rules now
	@go run ./hack/prose -vale $(VALE) -update

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## Format the code and sort its imports
	$(GOLANGCI_LINT) fmt ./...

# Folders with API types are found by controller-gen's own markers.
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
api: ## Write docs/api.txt, the list of what the library exports
	go run ./hack/api > docs/api.txt

.PHONY: messages
messages: ## Write docs/reference/messages.md, the log messages and errors; the advice is in hack/messages/advice.yaml
	go run ./hack/messages

plain-examples = $(filter-out $(EXAMPLE_PROJECTS),$(patsubst %/main.go,%,$(wildcard examples/*/main.go)))
each-project = set -e; for project in $(EXAMPLE_PROJECTS); do \
	echo "make $(1): $$project"; $(MAKE) --no-print-directory -C $$project $(1) CONTROLLER_GEN=$(CONTROLLER_GEN) >/dev/null; \
	done

.PHONY: pictures
pictures: ## Draw the pictures of the guide from their sources
	go run ./hack/pictures docs/pictures

##@ Checks

.PHONY: verify
verify: verify-fmt verify-tidy verify-generated verify-api verify-messages verify-licenses verify-vulnerabilities ## Fail when formatting, go.mod, generated files, docs/api.txt or docs/reference/messages.md are out of date; for bad licences, and vulnerabilities

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

# Compares the work tree before and after, whatever of it is committed; git's own index is not touched.
.PHONY: verify-generated
verify-generated: $(CONTROLLER_GEN)
	@set -e; \
	if ! git rev-parse --is-inside-work-tree >/dev/null; then \
		echo "verify: needs a git clone, to see which files change" >&2; exit 1; \
	fi; \
	snapshot() { rm -f $(BIN)/verify.index; GIT_INDEX_FILE=$(BIN)/verify.index git add -A . && GIT_INDEX_FILE=$(BIN)/verify.index git write-tree; }; \
	before=$$(snapshot); \
	$(MAKE) --no-print-directory generate manifests pictures; \
	after=$$(snapshot); rm -f $(BIN)/verify.index; \
	if [ "$$before" = "$$after" ]; then echo "verify: the generated files are up to date"; \
	else git --no-pager diff "$$before" "$$after"; \
		echo "verify: the generated files were out of date and have just been written again; commit them" >&2; exit 1; fi

# What has changed since the last release is for VERSIONING.md to judge, so it is only shown.
.PHONY: verify-api
verify-api:
	@go run ./hack/api -check docs/api.txt && echo "verify: docs/api.txt is up to date"
	@tag=$$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null); \
	if [ -z "$$tag" ]; then echo "verify: there is no release yet that the exported surface could be compared with"; \
	elif git cat-file -e "$$tag:docs/api.txt" 2>/dev/null; then echo "verify: the exported surface since $$tag:"; \
		git --no-pager diff --unified=0 "$$tag" -- docs/api.txt | grep '^[-+][^-+]' || echo "  as it was"; \
	else echo "verify: $$tag has no docs/api.txt to compare the exported surface with"; fi

.PHONY: verify-messages
verify-messages:
	@go run ./hack/messages -check && echo "verify: docs/reference/messages.md is up to date"

.PHONY: verify-licenses
verify-licenses:
	@go build -o $(BIN)/licenses ./hack/licenses
	@set -e; for module in $(filter-out hack/controlplane,$(MODULES)); do (cd $$module && printf 'verify: %s: ' "$$module" && $(BIN)/licenses); done

.PHONY: verify-vulnerabilities
verify-vulnerabilities: $(GOVULNCHECK) ## Known vulnerabilities that can be reached, if https://vuln.go.dev can be
	@go run ./hack/vulnerabilities $(GOVULNCHECK) $(filter-out hack/controlplane,$(MODULES))

##@ What the others need; they call for it themselves

.PHONY: controlplane
controlplane: ## Build etcd, kube-apiserver and kubectl into bin/controlplane, or use those in KUBEBUILDER_ASSETS
	@cd hack/controlplane && go run . -out ../../bin/controlplane

.PHONY: tools
tools: $(GOLANGCI_LINT) $(CONTROLLER_GEN) $(GINKGO) $(VALE) ## Build the pinned tools into bin/

# $(call build-tool,package): in the module of the first prerequisite.
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

$(GINKGO): hack/tools/go.mod hack/tools/go.sum
	$(call build-tool,github.com/onsi/ginkgo/v2/ginkgo)

.PHONY: clean
clean: ## Remove what was built here
	rm -rf bin .cache
