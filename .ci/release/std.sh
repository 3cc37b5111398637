#!/usr/bin/env bash
# Builds Rust's standard library for TARGET from the toolchain's own sources, where rustup has none: in DIRECTORY, with a
# `rustc` that finds it and a line `origin` for BUILD.txt. Only for armv7: the programs for the other two are relocatable
# in the packed form, which musl reads since 1.2.4, and Debian 12 has 1.2.3.
# Usage: std.sh TARGET DIRECTORY FROM=TO...; FROM is a path that becomes TO in the programs
set -euo pipefail
target=$1 directory=$2
shift 2
fail() { echo "dist: $*" >&2; exit 1; }

musl=/usr/lib/arm-linux-musleabihf
sysroot=$(rustc --print sysroot)
source=$sysroot/lib/rustlib/src/rust/library
[ "$target" = armv7-unknown-linux-musleabihf ] || fail "rustup cannot add Rust's standard library for $target"
[ -d "$source" ] || fail "please install the sources of Rust's standard library: rustup component add rust-src"
[ -e $musl/libc.a ] || fail "please install musl-dev:armhf, after dpkg --add-architecture armhf and apt-get update"
echo "dist: rustup has no standard library for $target, so it is built from the toolchain's sources" >&2

rm -rf "$directory"
mkdir -p "$directory/lib/rustlib/$target/lib/self-contained"
ln -s "$sysroot"/lib/rustlib/* "$directory/lib/rustlib/"
# With bitcode, as Rust's own, for the programs' optimiser. Here, and here only, rustc accepts what is unstable.
flags=("${@/#/--remap-path-prefix=}" -Cembed-bitcode=yes -Zforce-unstable-if-unmarked)
(cd "$source" && CARGO_TARGET_DIR=$directory/build RUSTC_BOOTSTRAP=1 \
    CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && echo "${flags[*]}") \
    cargo build --quiet --release --locked --target "$target" -p std -p panic_abort)
cd "$directory/lib/rustlib/$target/lib"
cp "$directory/build/$target"/release/deps/*.rlib .
cp $musl/crt1.o $musl/crti.o $musl/crtn.o $musl/libc.a self-contained/
for file in crtbegin.o crtend.o; do cp "$(arm-linux-gnueabihf-gcc -print-file-name=$file)" self-contained/; done
# musl's targets link an archive of this name; GCC's unwinder has the same interface.
cp "$(arm-linux-gnueabihf-gcc -print-file-name=libgcc_eh.a)" self-contained/libunwind.a
echo "built from rust-src, with Debian's musl-dev:armhf $(dpkg-query -W -f '${Version}' musl-dev:armhf)" >"$directory/origin"
printf '#!/bin/sh\nexec "%s/bin/rustc" --sysroot "%s" "$@"\n' "$sysroot" "$directory" >"$directory/rustc"
chmod +x "$directory/rustc"
