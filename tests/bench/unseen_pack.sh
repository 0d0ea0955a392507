#!/usr/bin/env bash
# The modules of the suite `unseen`, one for each shape that the seed draws, its sizes bound: the rule alone
# chooses, no search. After tests/gpu/pack.sh.
#
#     tests/bench/unseen_pack.sh SEED [BUILD]            default: build
set -eu
cd "$(dirname "$0")/../.."
build=${2:-build}
mkdir -p build-gpu/modules # beside the archive that tests/gpu/unpack.sh unpacks there
python3 -c 'import sys; sys.path.insert(0, "tests/bench"); import suites
for s in suites.unseen_shapes(int(sys.argv[1])): print(s)' "$1" | while read -r shape; do
    IFS=x read -r m n k <<< "$shape"
    "$build/fkc" --no-expect --bind "M=$m" --bind "N=$n" --bind "K=$k" -o "build-gpu/modules/unseen_$shape.fkm" tests/bench/gemm.fk
done
