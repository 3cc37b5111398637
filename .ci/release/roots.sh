#!/bin/sh
# Writes the file systems of the images to DIRECTORY: one for each PROGRAM, and `all`. The programs are in DIST, the
# licence texts in NOTICES. A link is made here because COPY follows one that it is named.
# Usage: roots.sh DIRECTORY DIST NOTICES PROGRAM...
set -eu
directory=$1 dist=$2 notices=$3
shift 3

rm -rf "$directory"
for program; do
    for root in "$directory/$program" "$directory/all"; do
        mkdir -p "$root/usr/local/bin" "$root/licenses"
        cp "$dist/$program" "$root/usr/local/bin/"
        cp "$notices"/* "$root/licenses/"
        case $program in
        # The Go sidecar's manifest runs the program by this name.
        addon-lease-controller) ln -s "$program" "$root/usr/local/bin/klusterlet-addon-lease-controller" ;;
        # The klusterlet operator's Deployment runs the registration agent as /registration.
        csr-bootstrapper) ln -s "usr/local/bin/$program" "$root/registration" ;;
        # And the work agent as /work, both agents in one process as /registration-operator.
        klusterlet-agent)
            ln -s "usr/local/bin/$program" "$root/work"
            ln -s "usr/local/bin/$program" "$root/registration-operator"
            ;;
        esac
    done
done
