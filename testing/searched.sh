#!/bin/sh
# Runs a command on the real control plane and keeps what the programs print; then searches that for every key and token
# in use. PROCESSES says how many processes of each program must have printed something, as in
# "remote-sync=100 csr-bootstrapper=200".
set -eu
OUTPUTS=$E2E_DIR/outputs
export OUTPUTS
mkdir -m 700 "$OUTPUTS"
"$@"
cargo test --locked -p suite --test outputs -- --ignored --nocapture
