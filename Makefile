# The only entry point, for people and for CI; `make` lists the targets.

# The programs in this repository.
BINS := addon-lease-controller csr-bootstrapper hub-kubeconfig-dumper remote-sync
# The architecture that `dist/` is built for: x86_64 or aarch64.
ARCH ?= $(shell uname -m)
IMAGE ?= spoke-sidecars:dev

TARGET := $(ARCH)-unknown-linux-musl
# One directory for all of cargo's output, whatever else configures it: `dist` must find the programs.
export CARGO_TARGET_DIR := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
PLATFORM := $(if $(filter $(ARCH),$(shell uname -m)),,--platform linux/$(ARCH))
RELEASE := $(CARGO_TARGET_DIR)/$(TARGET)/release

.PHONY: help build dist image test demo demo-sync controlplane e2e lint budget bench bench-real soak chaos chaos-real model fuzz clean
.DEFAULT_GOAL := help

help: ## Show this help
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Build

build: dist image ## Static programs in dist/, and an image of them

dist: ## Static programs only; ARCH=x86_64 or aarch64
	@test -d "$$(rustc --print target-libdir --target $(TARGET))" || rustup target add $(TARGET) || \
		{ echo "Rust's standard library for $(TARGET) is missing, and rustup cannot add it." >&2; exit 1; }
	cargo build --release --locked --target $(TARGET) $(addprefix -p ,$(BINS))
	@rm -rf dist && mkdir dist
	@for name in $(BINS); do \
		cp "$(RELEASE)/$$name" dist/ || exit 1; \
		readelf -ldW dist/$$name | awk '/INTERP|NEEDED/ { dynamic = 1 } /LOAD/ { elf = 1 } \
			END { exit dynamic || !elf }' || { echo "dist/$$name is not static" >&2; exit 1; }; \
	done
	@# The Go sidecar's manifest runs the program by this name.
	@ln -s addon-lease-controller dist/klusterlet-addon-lease-controller
	@cd dist && wc -c $(BINS)

# The tools put no timestamps into the image, so the same programs give the same image.
image: dist ## The image, with docker, podman or buildah, whichever is installed
	@if docker info >/dev/null 2>&1; then \
		set -- env DOCKER_BUILDKIT=1 docker build; \
	elif command -v podman >/dev/null; then \
		set -- podman build --timestamp 0; \
	elif command -v buildah >/dev/null; then \
		set -- buildah $$(buildah info >/dev/null 2>&1 || echo --storage-driver vfs) bud \
			--isolation chroot --timestamp 0; \
	else \
		echo "No image built: found no docker daemon, podman or buildah."; exit 0; \
	fi; \
	set -x; "$$@" $(PLATFORM) --build-context bin=dist -t $(IMAGE) .

# These run the released programs, not the debug build; MEASURE builds its tools with the same libc and
# optimisation.
demo demo-sync budget bench bench-real soak chaos chaos-real: export BIN_DIR := $(CURDIR)/dist
MEASURE := cargo run --locked -q --release --target $(TARGET) -p suite

##@ Try

demo: dist ## Watch a cluster join a hub and its add-on stay available; KEEP=1 leaves it running
	cargo run --locked -q -p suite --bin demo

demo-sync: dist ## Watch a hub's objects survive outages and an empty hub; KEEP=1 leaves it running
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

controlplane: ## Build the real control plane (Go; once, about 6 minutes)
	testing/controlplane/build.sh

# Everything that a real control plane can be asked for; modules called `faults` need the embedded one.
E2E := $(addprefix --test ,$(subst -,_,$(BINS)) kubernetes)

# One boot for all but the last two steps: the audits read the logs that the other tests left on the servers. Then
# certificates are valid for two minutes, so that one is renewed during the test.
e2e: controlplane ## Scenarios and manifests on the real control plane
	cargo build --locked --workspace
	@$(SUMMED) cargo test --locked -p suite --no-run; \
	SUITE=real testing/controlplane/run.sh sh -ec \
		'cargo test --locked -p suite $(E2E) -- --skip faults:: --skip rotation_by_the_real_hub; \
		cargo test --locked -p suite $(E2E) -- --ignored'; \
	SUITE=real CLUSTER_SIGNING_DURATION=2m testing/controlplane/run.sh \
		cargo test --locked -p suite --test csr_bootstrapper rotation_by_the_real_hub; \
	testing/controlplane/run.sh testing/manifests.sh

lint: ## Check format, clippy, documentation, dependencies and type names
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps -p shared
	testing/dependencies.sh $(BINS)
	testing/names.sh

budget: dist ## Check size, memory, requests, bytes and system calls against their limits
	$(MEASURE) --bin budget

bench: dist ## Measure remote-sync: lag, throughput, memory, restart, 10 to 300 remotes
	$(MEASURE) --bin bench

bench-real: dist controlplane ## Measure how long 1,000 waiting objects take on two real API servers, by -track
	SUITE=real testing/controlplane/run.sh $(MEASURE) --bin bench backlog

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
	rm -rf dist
