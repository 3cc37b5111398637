# The only entry point, for people and for CI; `make` lists the targets.

# The programs in this repository.
BINS := addon-lease-controller csr-bootstrapper hub-kubeconfig-dumper remote-sync
HOST := $(patsubst armv7%,armv7,$(shell uname -m))
# The architecture that `dist/` is built for: x86_64, aarch64 or armv7.
ARCH ?= $(HOST)
DIST ?= dist
IMAGE ?= spoke-sidecars:dev

TARGET := $(ARCH)-unknown-linux-musl$(if $(filter armv7,$(ARCH)),eabihf)
# The compiler of ring's C files: the host's own, or Debian's for the architecture.
COMPILER := $(if $(filter $(ARCH),$(HOST)),cc,$(if $(filter armv7,$(ARCH)),arm-linux-gnueabihf,$(ARCH)-linux-gnu)-gcc)
export CC_$(subst -,_,$(TARGET)) := $(COMPILER)
# One directory for all of cargo's output, whatever else configures it: `dist` must find the programs.
export CARGO_TARGET_DIR := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
RELEASE := $(CARGO_TARGET_DIR)/$(TARGET)/release
NOTICES := $(CARGO_TARGET_DIR)/notices
ROOTS := $(CARGO_TARGET_DIR)/roots
# The folders of whoever builds stay out of the programs, so that the same source gives the same bytes at any path.
# The source of Rust's standard library, where it is installed, has the path that it has where it is not. Cargo adds
# these flags to those of .cargo/config.toml; RUSTFLAGS would replace them.
RUST := $(shell rustc --version --verbose | sed -n 's/^commit-hash: //p')
REMAP := $(or $(CARGO_HOME),$(HOME)/.cargo)/registry/src=/cargo $(CARGO_TARGET_DIR)=/target \
	$(shell rustc --print sysroot)/lib/rustlib/src/rust=/rustc/$(RUST)
# The standard library, and one in its place that std.sh makes where rustup has none.
STD := $(shell rustc --print target-libdir --target $(TARGET))
OWN_STD := $(CARGO_TARGET_DIR)/std-$(RUST)
FLAGS := --config 'target.$(TARGET).rustflags=[$(REMAP:%="--remap-path-prefix=%",)]'
# The commit that is built, for `-version`.
REVISION := $(shell git describe --always --dirty --abbrev=40 --exclude '*' 2>/dev/null)

.PHONY: help build std dist notices roots image release verify compilers test announce demo demo-sync recordings \
	controlplane e2e emulated lint budget bench bench-real footprint figures plots soak chaos chaos-real model fuzz clean
.DEFAULT_GOAL := help

help: ## Show this help
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Build

build: dist image ## Static programs in dist/, and an image of them

std:
	@test -d "$(STD)" || test -x $(OWN_STD)/rustc || rustup target add $(TARGET) || \
		.ci/release/std.sh $(TARGET) $(OWN_STD) $(REMAP)

dist: std ## Static programs only; ARCH=x86_64, aarch64 or armv7
	@# remote-sync apart: in one build all programs would have the features that it needs, such as exact numbers.
	test -d "$(STD)" || export RUSTC=$(OWN_STD)/rustc; set -e; \
	for names in "$(filter-out remote-sync,$(BINS))" remote-sync; do \
		cargo $(AUDITABLE) build --release --locked --target $(TARGET) $(FLAGS) $$(printf ' -p %s' $$names); \
	done
	@rm -rf $(DIST) && mkdir $(DIST)
	@for name in $(BINS); do \
		cp "$(RELEASE)/$$name" $(DIST)/ || exit 1; \
		readelf -ldW $(DIST)/$$name | awk '/INTERP|NEEDED/ { dynamic = 1 } /LOAD/ { elf = 1 } \
			END { exit dynamic || !elf }' || { echo "$(DIST)/$$name is not static" >&2; exit 1; }; \
	done
	@# The Go sidecar's manifest runs the program by this name; of the images' other links see roots.sh.
	@ln -s addon-lease-controller $(DIST)/klusterlet-addon-lease-controller
	@cd $(DIST) && wc -c $(BINS)

# The licences of what is linked.
notices:
	@.ci/release/notices.sh $(NOTICES) $(BINS)

# The files of the images.
roots: dist notices
	@.ci/release/roots.sh $(ROOTS) $(DIST) $(NOTICES) $(BINS)

# The tools put no timestamps into the image, so the same programs give the same image.
image: roots ## The image, with docker, podman or buildah, whichever is installed
	@if docker info >/dev/null 2>&1 && docker buildx version >/dev/null 2>&1; then \
		set -- env DOCKER_BUILDKIT=1 docker build; \
	elif command -v podman >/dev/null; then \
		set -- podman build --timestamp 0; \
	elif command -v buildah >/dev/null; then \
		set -- buildah $$(buildah info >/dev/null 2>&1 || echo --storage-driver vfs) bud \
			--isolation chroot --timestamp 0; \
	else \
		echo "No image built: found no docker daemon with buildx, podman or buildah."; exit 0; \
	fi; \
	set -x; "$$@" $(if $(filter $(ARCH),$(HOST)),,--platform linux/$(shell .ci/release/platform.sh $(ARCH))) \
		--build-context roots=$(ROOTS) -t $(IMAGE) .

# For release.sh.
compilers:
	@echo "$(ARCH): $$($(COMPILER) --version | sed -n 1p);" \
		"standard library $$(test -d "$(STD)" && echo of the toolchain || cat $(OWN_STD)/origin)"

# cargo-auditable puts the list of crates into each program; buildah makes the images of all architectures.
release verify: export ARCHES ?= x86_64 aarch64 armv7
release: ## A release in release/VERSION: programs, images, manifests, SBOMs, sums; VERSION, ARCHES, REGISTRY, SOURCE
	.ci/release/release.sh "$(VERSION)" $(BINS)

verify: ## Make a release again from its tag, and compare it with the published SUMS; VERSION, COMMIT, ARCHES
	.ci/release/verify.sh "$(VERSION)" "$(SUMS)"

# These run the released programs, not the debug build; MEASURE builds its tools with the same libc and
# optimisation.
demo demo-sync recordings budget bench bench-real footprint figures soak chaos chaos-real: export BIN_DIR := $(CURDIR)/dist
MEASURE := cargo run --locked -q --release --target $(TARGET) $(FLAGS) -p suite
# Where programs are built as `dist` builds them.
dist budget bench bench-real footprint figures soak chaos chaos-real: export SPOKE_REVISION := $(REVISION)

##@ Try

announce:
	$(if $(wildcard dist/remote-sync),,@echo "First the programs are built: a few minutes, once. Then it runs for a minute.")

demo: announce dist ## Watch a cluster join a hub and its add-on become available; KEEP=1 leaves it running
	cargo run --locked -q -p suite --bin demo

recordings: dist ## Draw what both demos print, in docs/img; CHECK=1 compares instead
	cargo build --locked -q -p suite --bins
	cargo run --locked -q -p suite --bin record

demo-sync: announce dist ## Watch a hub's objects survive outages and an empty hub; KEEP=1 leaves it running
	cargo run --locked -q -p suite --bin demo-sync

##@ Test

# Tests or parts of tests that were skipped, one per line; counted and listed at the end.
test e2e: export SKIPPED := $(abspath $(CARGO_TARGET_DIR))/skipped
# Also when a test fails.
SUMMED = rm -f "$(SKIPPED)"; touch "$(SKIPPED)"; trap '{ set +x; } 2>/dev/null; \
	echo "$$(wc -l <"$(SKIPPED)") tests or parts of one were skipped:"; cat "$(SKIPPED)"' EXIT; set -ex;

test: dist ## Unit tests, scenarios and faults on the embedded API server; needs no Go
	@# Programs first: the scenarios run the debug build, those with hostile peers run dist/.
	cargo build --locked --workspace
	@$(SUMMED) cargo test --locked --workspace

controlplane: ## Build the real control plane (Go; once, about 7 minutes)
	testing/controlplane/build.sh

# Everything that a real control plane can be asked for; modules called `faults` need the embedded one.
E2E := $(addprefix --test ,$(subst -,_,$(BINS)) kubernetes migration)

# One boot for all but the last steps: the audits read the logs that the other tests left on the servers. Then
# certificates are valid for two minutes, so that one is renewed during the test. At the end of each boot all that the
# programs printed is searched for the keys and tokens in use; PROCESSES says how many of each must have printed something.
e2e: controlplane ## Scenarios and manifests on the real control plane
	cargo build --locked --workspace
	@$(SUMMED) cargo test --locked -p suite --no-run; \
	PROCESSES="addon-lease-controller=200 csr-bootstrapper=350 hub-kubeconfig-dumper=60 remote-sync=650" \
		SUITE=real testing/controlplane/run.sh testing/searched.sh sh -ec \
		'cargo test --locked -p suite $(E2E) -- --skip faults:: --skip rotation_by_the_real_hub; \
		cargo test --locked -p suite $(E2E) -- --ignored'; \
	PROCESSES=csr-bootstrapper=1 SUITE=real CLUSTER_SIGNING_DURATION=2m \
		testing/controlplane/run.sh testing/searched.sh \
		cargo test --locked -p suite --test csr_bootstrapper rotation_by_the_real_hub; \
	for test in quick_starts_of_each_program_and_the_add_on quick_start_of_all; do \
		PROCESSES="csr-bootstrapper=1 hub-kubeconfig-dumper=1 remote-sync=1" \
			SUITE=real testing/controlplane/run.sh testing/searched.sh \
			cargo test --locked -p suite --test quickstart -- --ignored $$test || exit 1; \
	done; \
	testing/controlplane/run.sh testing/manifests.sh

emulated: DIST := $(CARGO_TARGET_DIR)/emulated
emulated: dist ## Scenarios of each program built for another architecture, under qemu-user; ARCH=armv7 or aarch64
	testing/emulated.sh $(ARCH) $(DIST)

lint: ## Check format, clippy, documentation, dependencies and type names
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps -p shared
	testing/dependencies.sh $(BINS)
	@# Advisories where `cargo deny fetch db` has brought the database.
	@if cargo deny --version >/dev/null 2>&1; then \
		set -ex; cargo deny --locked check bans licenses sources; \
		$(if $(wildcard $(or $(CARGO_HOME),$(HOME)/.cargo)/advisory-dbs/*/.git),cargo deny --locked --offline check advisories;) \
	else \
		echo "Without cargo-deny the licences and bans of deny.toml are not checked."; test -z "$$NO_SKIPS"; \
	fi
	testing/names.sh

budget: dist ## Check size, memory, requests, bytes and system calls against their limits
	$(MEASURE) --bin budget

bench: dist ## Measure remote-sync: lag, throughput, memory, restart, 10 to 300 remotes
	$(MEASURE) --bin bench

bench-real: dist controlplane ## Measure how long 1,000 waiting objects take on two real API servers, by -track
	SUITE=real testing/controlplane/run.sh $(MEASURE) --bin bench backlog

footprint: dist controlplane ## Measure OCM's agents and ours beside each other on the real control plane
	SUITE=real testing/controlplane/run.sh $(MEASURE) --bin bench footprint

figures: export FIGURES := 1
figures: budget bench footprint plots ## Measure all of it, and write docs/figures.md

plots: ## Draw the tables of docs/figures.md, in docs/img
	cargo run --locked -q -p suite --bin plots

soak: dist ## 100,000 renewals with 5 % random faults, in one process and in many; SEED, RENEWALS, PART
	$(MEASURE) --bin soak

chaos: dist ## 10,000 random operations on remote-sync, checked against a model; SEED, OPERATIONS, SECONDS, MODE, CONFIG
	$(MEASURE) --bin chaos

# A part of it is in `make e2e`.
chaos-real: dist controlplane ## The same on two real API servers, with what they offer; OPERATIONS=2000 or so
	SUITE=real testing/controlplane/run.sh $(MEASURE) --bin chaos

# A part of it is in `make test`.
model: ## Explore the models of csr-bootstrapper and remote-sync, with more troubles than `make test`
	MODEL=whole cargo test --locked --profile fuzz -p explorer -p csr-bootstrapper -p remote-sync -- \
		--nocapture --test-threads 1 model::

# The seeds are part of `make test`. TARGET is a variable above, too; on the command line it names a fuzz target.
fuzz: ## Fuzz each parser of untrusted bytes for SECONDS=600; TARGET=pem picks one, INPUT=file replays; SEED
	testing/fuzz/run.sh $(or $(SECONDS),600) \
		$(if $(findstring command,$(origin TARGET)),$(TARGET) $(abspath $(INPUT)))

##@ Other

clean: ## Remove everything built here (the control plane stays cached)
	cargo clean
	rm -rf dist release
