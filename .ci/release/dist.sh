#!/usr/bin/env bash
# Builds the static programs PROGRAM... for ARCH into DIRECTORY.
# Usage: dist.sh ARCH DIRECTORY PROGRAM...; AUDITABLE=auditable puts the list of crates into each program
set -euo pipefail
cd "$(dirname "$0")/../.."
. .ci/release/target.sh "$1"
directory=$2
shift 2
output=$(realpath -m "${CARGO_TARGET_DIR:-target}")

# The same source gives the same bytes at any path: no folder of the builder's stays in a program. Where Rust's own
# sources are installed, their path becomes the one that programs have without them.
rust=$(rustc -vV | sed -n 's/^commit-hash: //p')
remap=(
    "${CARGO_HOME:-$HOME/.cargo}/registry/src=/cargo" "$output=/target"
    "$(rustc --print sysroot)/lib/rustlib/src/rust=/rustc/$rust"
)
[ -d "$std" ] || [ -x "$own_std/rustc" ] || rustup target add "$target" ||
    .ci/release/std.sh "$target" "$own_std" "${remap[@]}"
[ -d "$std" ] || export RUSTC=$own_std/rustc

# The commit, for -version.
SPOKE_REVISION=$(git describe --always --dirty --abbrev=40 --exclude '*' 2>/dev/null || true)
variable=CC_${target//-/_}
export SPOKE_REVISION "$variable=$compiler"
# Cargo adds these flags to .cargo/config.toml's; RUSTFLAGS would replace them.
flags=$(printf '"--remap-path-prefix=%s",' "${remap[@]}")
# shellcheck disable=SC2086 # AUDITABLE is a word or nothing.
cargo ${AUDITABLE:-} build --release --locked --target "$target" \
    --config "target.$target.rustflags=[$flags]" "${@/#/--package=}"

rm -rf "$directory"
mkdir "$directory"
for program; do
    cp "$output/$target/release/$program" "$directory/"
    ! readelf -ldW "$directory/$program" | grep -E 'INTERP|NEEDED' ||
        { echo "dist: $directory/$program is not static" >&2; exit 1; }
done
# The Go sidecar's manifest runs the program by this name; roots.sh makes the images' links.
ln -s addon-lease-controller "$directory/klusterlet-addon-lease-controller"
cd "$directory" && wc -c "$@"
