# The only entry point, for people and for CI; `make` explains itself.

# The programs of this repository.
BINS := addon-lease-controller csr-bootstrapper hub-kubeconfig-dumper remote-sync
# For which machine `dist/` is built: x86_64 or aarch64.
ARCH ?= $(shell uname -m)
IMAGE ?= spoke-sidecars:dev

TARGET := $(ARCH)-unknown-linux-musl
# One place for all of cargo's output, whatever else configures it: `dist` has to find the programs.
export CARGO_TARGET_DIR := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
PLATFORM := $(if $(filter $(ARCH),$(shell uname -m)),,--platform linux/$(ARCH))
RELEASE := $(CARGO_TARGET_DIR)/$(TARGET)/release

.PHONY: help build dist image test demo demo-sync controlplane e2e lint budget bench soak chaos fuzz clean
.DEFAULT_GOAL := help

help: ## Show this help
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Build

build: dist image ## Static programs into dist/, then an image of them

dist: ## Static programs only, for ARCH=x86_64 or aarch64
	@test -d "$$(rustc --print target-libdir --target $(TARGET))" || rustup target add $(TARGET) || \
		{ echo "Rust's standard library for $(TARGET) is missing, and rustup cannot add it." >&2; exit 1; }
	cargo build --release --locked --target $(TARGET) $(addprefix -p ,$(BINS))
	@rm -rf dist && mkdir dist
	@for name in $(BINS); do \
		cp "$(RELEASE)/$$name" dist/ || exit 1; \
		readelf -ldW dist/$$name | awk '/INTERP|NEEDED/ { dynamic = 1 } /LOAD/ { elf = 1 } \
			END { exit dynamic || !elf }' || { echo "dist/$$name is not static" >&2; exit 1; }; \
	done
	@# The name that the Go sidecar's manifest runs.
	@ln -s addon-lease-controller dist/klusterlet-addon-lease-controller
	@cd dist && wc -c $(BINS)

# The tools keep no time of their own in the image, so the same programs give the same image.
image: dist ## The image, by docker, podman or buildah, whichever is there
	@if docker info >/dev/null 2>&1; then \
		set -- env DOCKER_BUILDKIT=1 docker build; \
	elif command -v podman >/dev/null; then \
		set -- podman build --timestamp 0; \
	elif command -v buildah >/dev/null; then \
		set -- buildah $$(buildah info >/dev/null 2>&1 || echo --storage-driver vfs) bud \
			--isolation chroot --timestamp 0; \
	else \
		echo "No image: there is no docker daemon, no podman and no buildah here."; exit 0; \
	fi; \
	set -x; "$$@" $(PLATFORM) --build-context bin=dist -t $(IMAGE) .

# These run what users get, not the debug build; two of them with the same libc and optimisation.
demo demo-sync budget bench soak chaos: export BIN_DIR := $(CURDIR)/dist
MEASURE := cargo run --locked -q --release --target $(TARGET) -p suite

##@ Try

demo: dist ## A cluster joins and its add-on stays available, on one screen; KEEP=1 leaves it running
	cargo run --locked -q -p suite --bin demo

demo-sync: dist ## A hub's objects live on a cluster, through outages and an empty hub; KEEP=1 too
	cargo run --locked -q -p suite --bin demo-sync

##@ Test

# What tests leave out where something is missing, a line each; in the end counted and listed.
test e2e: export SKIPPED := $(abspath $(CARGO_TARGET_DIR))/skipped
# Also when a test fails.
SUMMED = rm -f "$(SKIPPED)"; touch "$(SKIPPED)"; trap '{ set +x; } 2>/dev/null; \
	echo "$$(wc -l <"$(SKIPPED)") tests or parts of one were skipped:"; cat "$(SKIPPED)"' EXIT; set -ex;

test: dist ## Unit tests, scenarios and faults on the embedded API server; needs no Go
	@# The scenarios run the programs, so these come first; those among hostile peers what users get.
	cargo build --locked --workspace
	@$(SUMMED) cargo test --locked --workspace

controlplane: ## Build the real control plane (Go; once, about 6 minutes)
	testing/controlplane/build.sh

# What a real control plane can be asked for; `faults` are of the embedded one.
E2E := $(addprefix --test ,$(subst -,_,$(BINS)) kubernetes)

# One boot for all but the last two steps: the audits read what the others left in the servers' logs. Then certificates
# for two minutes, so that the hub renews one while we wait.
e2e: controlplane ## The scenarios and the manifests on the real control plane
	cargo build --locked --workspace
	@$(SUMMED) cargo test --locked -p suite --no-run; \
	SUITE=real testing/controlplane/run.sh sh -ec \
		'cargo test --locked -p suite $(E2E) -- --skip faults:: --skip rotation_by_the_real_hub; \
		cargo test --locked -p suite $(E2E) -- --ignored'; \
	SUITE=real CLUSTER_SIGNING_DURATION=2m testing/controlplane/run.sh \
		cargo test --locked -p suite --test csr_bootstrapper rotation_by_the_real_hub; \
	testing/controlplane/run.sh testing/manifests.sh

lint: ## Format, clippy, documentation, dependencies, names
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps -p shared
	testing/dependencies.sh $(BINS)
	testing/names.sh

budget: dist ## Size, memory, requests, bytes and system calls, against their limits
	$(MEASURE) --bin budget

bench: dist ## remote-sync: lag, throughput, memory, restart, a hundred remotes; as a table
	$(MEASURE) --bin bench

soak: dist ## 100,000 renewals with 5 % random faults, by one process and by many; SEED, RENEWALS, PART
	$(MEASURE) --bin soak

chaos: dist ## 10,000 random operations around remote-sync against a model; SEED, OPERATIONS, SECONDS, MODE
	$(MEASURE) --bin chaos

# Their seeds are part of `make test`. TARGET is also ours; only one from the command line is a fuzz target.
fuzz: ## What reads bytes of others, each for SECONDS=600; TARGET=pem is one of it, INPUT=file again; SEED
	testing/fuzz/run.sh $(or $(SECONDS),600) \
		$(if $(findstring command,$(origin TARGET)),$(TARGET) $(abspath $(INPUT)))

##@ Other

clean: ## Remove what was built here (the control plane stays in its cache)
	cargo clean
	rm -rf dist
