# Sourced with an ARCH: its names, and the standard library that its programs are linked with.
case $1 in
x86_64) platform=amd64 target=x86_64-unknown-linux-musl compiler=x86_64-linux-gnu-gcc ;;
aarch64) platform=arm64 target=aarch64-unknown-linux-musl compiler=aarch64-linux-gnu-gcc ;;
armv7) platform=arm/v7 target=armv7-unknown-linux-musleabihf compiler=arm-linux-gnueabihf-gcc ;;
*) echo "ARCH must be x86_64, aarch64 or armv7, got $1" >&2; exit 1 ;;
esac
# ring's C files need a compiler for the architecture; the host's own serves for its own.
[ "$(uname -m)" != "${1/armv7/armv7l}" ] || compiler=cc
std=$(rustc --print target-libdir --target $target)
# std.sh makes one where rustup has none.
own_std=${CARGO_TARGET_DIR:-target}/std-$(rustc -vV | sed -n 's/^commit-hash: //p')
