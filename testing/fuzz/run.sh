#!/bin/sh
# Usage: testing/fuzz/run.sh SECONDS [TARGET [INPUT]]
# Runs every target, or TARGET, for SECONDS. With INPUT, a file, runs TARGET on that file alone. With SEED set,
# starts from the committed seeds alone, so that the seed is enough to repeat the run.
set -eu
cd "$(dirname "$0")"
seconds=$1 only=${2:-} input=${3:-} seed=${SEED:-$(date +%s)}
: "${only:=$(cd src/bin && ls | sed 's/\.rs$//')}"
fail() { echo "make fuzz: $1" >&2; exit 1; }

for target in $only; do
    [ -f "src/bin/$target.rs" ] || fail "no such target: $target"
done
command -v "${CXX:-c++}" >/dev/null ||
    fail "no C++ compiler: install g++ or clang, or correct CXX"
# Not the musl target of dist/: libFuzzer and the sanitizer need the host's.
host=$(rustc -vV | sed -n 's/^host: //p')
flags='--cfg fuzzing -Cforce-frame-pointers -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares'
# AddressSanitizer checks the `unsafe` code of libraries. It is unstable, but rustup's stable Rust for x86_64
# and aarch64 ships it; without it, the targets' other checks remain.
if ls "$(rustc --print target-libdir)"/librustc*_rt.asan.a >/dev/null 2>&1; then
    export RUSTC_BOOTSTRAP=1
    flags="$flags -Zsanitizer=address"
    # The sanitizer quarantines freed memory; its default of 256 MB would hide the targets' own use.
    export ASAN_OPTIONS="quarantine_size_mb=32:${ASAN_OPTIONS:-}"
fi
: "${CARGO_TARGET_DIR:=$PWD/../../target}"
# With --target, the flags do not apply to build scripts.
RUSTFLAGS=$flags CARGO_TARGET_DIR=$CARGO_TARGET_DIR/fuzz \
    cargo build --locked --profile fuzz -p fuzz --target "$host"

found=${XDG_CACHE_HOME:-$HOME/.cache}/spoke-sidecars/fuzz
mkdir -p "$found/findings"
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
for target in $only; do
    program=$CARGO_TARGET_DIR/fuzz/$host/fuzz/$target
    # Far above the needs of the slowest input on a busy machine; the targets enforce the real bounds.
    set -- -timeout=60 -rss_limit_mb=1024 -malloc_limit_mb=256
    if [ -n "$input" ]; then
        "$program" "$@" "$input"
        continue
    fi
    corpus=$found/$target
    [ -z "${SEED:-}" ] || corpus=$fresh/$target
    mkdir -p "$corpus"
    [ ! -f "seeds/$target.dict" ] || set -- "$@" "-dict=seeds/$target.dict"
    new=$fresh/new
    touch "$new"
    echo "make fuzz: $target for $seconds s, SEED=$seed"
    "$program" "$@" -seed="$seed" -max_total_time="$seconds" -max_len=8192 -entropic_scale_per_exec_time=1 \
        -print_final_stats=1 -artifact_prefix="$found/findings/$target-" "$corpus" "seeds/$target" || {
        # The machine may be gone by the time somebody looks.
        find "$found/findings" -name "$target-*" -newer "$new" -size -64k \
            -exec sh -c 'echo "base64 of $1:"; base64 "$1"' - {} \;
        fail "$target has a finding; replay it with: make fuzz TARGET=$target INPUT=<the file above>"
    }
done
