# The only entry point, for people and for CI; `make` lists the targets.

BINS := addon-lease-controller csr-bootstrapper hub-kubeconfig-dumper klusterlet-agent remote-sync
# The architecture of dist/: x86_64, aarch64 or armv7.
ARCH ?= $(patsubst armv7%,armv7,$(shell uname -m))
DIST ?= dist
IMAGE ?= spoke-sidecars:dev
export CARGO_TARGET_DIR := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
NOTICES := $(CARGO_TARGET_DIR)/notices
ROOTS := $(CARGO_TARGET_DIR)/roots

.PHONY: help build dist notices roots image demo demo-sync check test scenarios limits controlplane e2e-smoke e2e-pods \
	nightly e2e e2e-scenarios rotation manifests chaos chaos-real soak bench bench-real footprint budget figures fuzz \
	model mutants recordings emulated upstream release verify clean
.DEFAULT_GOAL := help

help: ## Show this help
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Build

build: dist image ## Static programs in dist/, and an image of them

dist: ## Static programs only; ARCH=x86_64, aarch64 or armv7
	@.ci/release/dist.sh $(ARCH) $(DIST) $(BINS)

# The licences of what is linked.
notices:
	@.ci/release/notices.sh $(NOTICES) $(BINS)

# The files of the images.
roots: dist notices
	@.ci/release/roots.sh $(ROOTS) $(DIST) $(NOTICES) $(BINS)

image: roots ## The image, with docker, podman or buildah
	@.ci/release/image.sh $(ARCH) $(ROOTS) $(IMAGE)

##@ Try

# What a demo or a measurement runs are the programs in dist/, not the debug build.
TOOL := env BIN_DIR=$(CURDIR)/dist cargo run --locked -q --profile fuzz -p tools --bin

demo: dist ## Watch a cluster join a hub and its add-on become available; KEEP=1 leaves it running
	$(TOOL) demo

demo-sync: dist ## Watch a hub's objects survive outages and an empty hub; KEEP=1 leaves it running
	$(TOOL) demo-sync

##@ Test each change

# All test commands select the whole workspace: with a part of it, cargo would build the crates again with other features.
TEST := cargo test --locked --workspace --no-fail-fast
SCENARIOS := $(addprefix --test ,$(subst -,_,$(BINS)))

check: ## Format, clippy, dependencies, names, prose
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo deny --locked check bans licenses sources
	@# Programs need no testing crate; all crates, also those of tests alone, are from crates.io.
	! cargo tree --locked $(BINS:%=-p %) -e normal,build --prefix none | grep -F /testing/
	! grep '^source = ' Cargo.lock | grep -vF '"registry+https://github.com/rust-lang/crates.io-index"'
	testing/names.sh
	testing/prose.sh

test: ## Unit tests, models, and the scenarios that guard what users would lose; debug builds, needs no Go
	cargo build --locked --workspace
	$(TEST) --lib $(BINS:%=--bin %) --test kubeconfig --test replay
	$(TEST) $(SCENARIOS) --test everywhere -- smoke::

scenarios: dist ## All other scenarios on the embedded API server; hostile peers get the programs in dist/
	cargo build --locked --workspace
	$(TEST) $(SCENARIOS) --test everywhere --test client --test docs --test hostile --test kubernetes -- --skip smoke::

limits: dist ## Size, memory and requests at rest against their limits
	$(TOOL) budget quick

controlplane: ## Build the real control plane (Go; once, about 7 minutes)
	testing/controlplane/build.sh

# Runs a command with two clusters and Open Cluster Management's programs. At its end, audits read the servers' logs.
REAL := SUITE=real testing/controlplane/run.sh
E2E := $(TEST) $(SCENARIOS) --test kubernetes

e2e-smoke: controlplane ## The smoke scenarios on the real control plane, audits of their rights
	cargo build --locked --workspace
	$(REAL) sh -ec '$(E2E) -- smoke::; $(E2E) -- --ignored audit:: --skip right_is_used'

# Each of these needs a control plane and a node to itself. MORE_PODS are those that take too long for each change.
PODS := $(MORE_PODS) quick_starts_of_each_program quick_start_of_all each_base_and_component

e2e-pods: dist ## Manifests, quick starts and OCM's agents as pods of a real kubelet; needs root and containerd
	NODE=1 testing/controlplane/build.sh >/dev/null
	$(TEST) --test pods --no-run
	printf '%s\n' $(PODS) | NODE=1 SUITE=real BIN_DIR=$(CURDIR)/dist \
		xargs -P 3 -I NAME testing/controlplane/run.sh $(TEST) --test pods -- --ignored NAME

##@ Test each night

nightly: ## All that follows, but clean; FROM=chaos resumes there, PARTS="soak bench" runs these alone
	.ci/nightly

e2e: e2e-scenarios rotation e2e-pods manifests ## All scenarios, quick starts and manifests on the real control plane

e2e-scenarios: controlplane
	cargo build --locked --workspace
	$(REAL) sh -ec '$(E2E) --test real -- --skip faults:: --skip rotation_by_the_real_hub; $(E2E) -- --ignored audit::'

# Certificates are valid for two minutes, so that one is renewed during the test.
rotation: controlplane
	cargo build --locked --workspace
	CLUSTER_SIGNING_DURATION=2m $(REAL) $(TEST) --test csr_bootstrapper rotation_by_the_real_hub

manifests: controlplane
	testing/controlplane/run.sh testing/manifests.sh

upstream: controlplane ## OCM's own tests of its agents against ours; SUITE=registration or work, PROGRAM= runs OCM's agents
	$(if $(SUITE),,$(if $(PROGRAM),$(error PROGRAM needs SUITE: each suite has a program of its own)))cargo build --locked --workspace
	set -e; for suite in $(or $(SUITE),registration work); do testing/upstream/run.sh $$suite; done

chaos: dist ## 10,000 random operations on remote-sync, checked against a model; SEED, OPERATIONS, SECONDS, CONFIG
	$(TOOL) chaos

chaos-real: dist controlplane ## The same on two real API servers, with what they offer; OPERATIONS=2000 or so
	$(REAL) $(TOOL) chaos

soak: dist ## 100,000 renewals with 5 % random faults; SEED, RENEWALS
	$(TOOL) soak

bench: dist ## Measure remote-sync: lag, throughput, 10 to 300 remotes
	$(TOOL) bench

bench-real: dist controlplane ## Measure how long 1,000 waiting objects take on two real API servers, by -track
	$(REAL) $(TOOL) bench backlog

footprint: dist controlplane ## Measure OCM's agents and ours beside each other on the real control plane
	$(REAL) $(TOOL) bench footprint works

budget: dist ## All of `limits`, and bytes, writes and times
	$(TOOL) budget

figures: export FIGURES := 1
figures: budget bench footprint ## Measure all of it, and write docs/figures.md

fuzz: ## Fuzz each parser of untrusted bytes for SECONDS=600; TARGET=pem picks one, INPUT=file replays; SEED
	testing/fuzz/run.sh $(or $(SECONDS),600) $(TARGET) $(abspath $(INPUT))

model: ## Explore the models of csr-bootstrapper, klusterlet-agent and remote-sync, with more troubles than `make test`
	MODEL=whole cargo test --locked --profile fuzz -p explorer -p csr-bootstrapper -p klusterlet-agent -p remote-sync -- \
		--nocapture --test-threads 1 model::

# Survivors are listed, and are no failure (2); nor is the end of the time (3, 124). .cargo/mutants.toml has the files.
mutants: ## Run unit tests against changes of the deciding code since BASE, a day ago by default; MINUTES=20
	git diff $(or $(BASE),$$(git rev-list -1 --before='24 hours ago' HEAD)) -- '*.rs' >$(CARGO_TARGET_DIR)/changed.diff
	timeout -s INT $(or $(MINUTES),20)m cargo mutants --in-diff $(CARGO_TARGET_DIR)/changed.diff -o $(CARGO_TARGET_DIR) || \
		case $$? in 2 | 3 | 124) ;; *) exit 1 ;; esac

recordings: dist ## Draw what both demos print, in docs/img; CHECK=1 compares instead
	cargo build --locked -q --profile fuzz -p tools --bins
	$(TOOL) record

emulated: DIST := $(CARGO_TARGET_DIR)/emulated
emulated: dist ## Scenarios of each program built for another architecture, under qemu-user; ARCH=armv7 or aarch64
	testing/emulated.sh $(ARCH) $(DIST)

##@ Release

# cargo-auditable puts the list of crates into each program; buildah makes the images of all architectures.
release verify: export ARCHES ?= x86_64 aarch64 armv7
release: ## A release in release/VERSION: programs, images, manifests, SBOMs, sums; VERSION, ARCHES, REGISTRY, SOURCE
	.ci/release/release.sh "$(VERSION)" $(BINS)

verify: ## Make a release again from its tag, and compare it with the published SUMS; VERSION, COMMIT, ARCHES
	.ci/release/verify.sh "$(VERSION)" "$(SUMS)"

clean: ## Remove everything built here (the control plane stays cached)
	cargo clean
	rm -rf dist release
