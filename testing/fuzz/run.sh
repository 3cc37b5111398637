#!/bin/sh
# Usage: testing/fuzz/run.sh SECONDS [TARGET | TARGET INPUT]
# Runs each target, or one, for so long; with INPUT, which is a file, runs it on that alone. With SEED it
# begins with the committed inputs alone, so that whoever has the seed has the run.
set -eu
cd "$(dirname "$0")"
seconds=$1 only=${2:-} input=${3:-} seed=${SEED:-$(date +%s)}
: "${only:=$(cd src/bin && ls | sed 's/\.rs$//')}"
fail() { echo "make fuzz: $1" >&2; exit 1; }

for target in $only; do
    [ -f "src/bin/$target.rs" ] || fail "there is no target $target"
done
command -v "${CXX:-c++}" >/dev/null ||
    fail "a C++ compiler is missing (g++ or clang), or CXX names one that is not there"
# Not the musl of dist/: libFuzzer and the sanitizer are the host's.
host=$(rustc -vV | sed -n 's/^host: //p')
flags='--cfg fuzzing -Cforce-frame-pointers -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares'
# For the `unsafe` code of libraries. It is not stable, but rustup's stable Rust for x86_64 and aarch64
# brings it; where it is not, the rest still counts.
if ls "$(rustc --print target-libdir)"/librustc*_rt.asan.a >/dev/null 2>&1; then
    export RUSTC_BOOTSTRAP=1
    flags="$flags -Zsanitizer=address"
    # What was freed is kept for a while; 256 MB of it would hide what the targets need.
    export ASAN_OPTIONS="quarantine_size_mb=32:${ASAN_OPTIONS:-}"
fi
: "${CARGO_TARGET_DIR:=$PWD/../../target}"
# With --target the flags are not for build scripts.
RUSTFLAGS=$flags CARGO_TARGET_DIR=$CARGO_TARGET_DIR/fuzz \
    cargo build --locked --profile fuzz -p fuzz --target "$host"

found=${XDG_CACHE_HOME:-$HOME/.cache}/spoke-sidecars/fuzz
mkdir -p "$found/findings"
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
for target in $only; do
    program=$CARGO_TARGET_DIR/fuzz/$host/fuzz/$target
    # Far above what the slowest input takes on a busy machine; what it may take is the target's to say.
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
        # The machine may be gone by the time that somebody looks.
        find "$found/findings" -name "$target-*" -newer "$new" -size -64k \
            -exec sh -c 'echo "base64 of $1:"; base64 "$1"' - {} \;
        fail "$target has a finding; replay it with: make fuzz TARGET=$target INPUT=(the file above)"
    }
done
