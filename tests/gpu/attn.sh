#!/usr/bin/env bash
# On a machine with a GPU, after tests/gpu/pack.sh: the grid of attention (tests/gpu/attn.py says what is in
# it), as tests/gpu/grid.sh runs that of products, with the same arguments. Writes build-gpu/attn.log.
cd "$(dirname "$0")/../.." && bash tests/gpu/unpack.sh || exit 1
GRID_DIR=build-gpu/attn exec bash tests/gpu/grid.sh "$@"
