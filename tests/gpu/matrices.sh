#!/usr/bin/env bash
# On a machine with a GPU, after tests/gpu/pack.sh: every variant of tests/gpu/matrices.fk, forced, at
# sizes that hang over tiles and slabs, and once with each matrix at an offset, padded, or of a layout
# that TMA refuses. A variant that a fn lacks, or that refuses the sizes, is counted as skipped; each fn
# must have run on a variant with slabs.
#
# The last line is "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.." && bash tests/gpu/unpack.sh || exit 1
run=build-gpu/fkrun mod=build-gpu/modules/gemm_matrices.fkm pass=0 fail=0 skip=0 fast=0
check() { # FN VARIANT ARGUMENTS...
    local fn=$1 variant=$2 out rc force=()
    shift 2
    [ "$variant" = auto ] || force=(--variant "$variant")
    out=$(timeout 60 $run --check --check-seconds 3 --repeat 3 --fn "$fn" "${force[@]}" "$@" $mod 2>&1)
    rc=$?
    if [ $rc -eq 0 ]; then
        pass=$((pass + 1))
        [[ $variant =~ coop|pingpong ]] && fast=$((fast + 1))
    elif grep -q UNSUPPORTED <<< "$out"; then skip=$((skip + 1))
    else
        fail=$((fail + 1))
        [ $fail -le 12 ] && { echo "FAIL $fn $variant $*"; head -n 3 <<< "$out"; }
    fi
}
variants=$($run --list $mod | grep -oE '(coop|pingpong|thin|swap|direct)_[0-9x_]+' | sort -u)
for fn in gated half wide single eight ints aux batch loose long others; do
    fast=0 more=() matrix=r
    case $fn in
        batch) more=(-s B=2 -s H=8) ;;
        loose) more=(-s B=2) ;;
        others) more=(-s V=50) matrix=z ;;
        ints) matrix=q ;;
        aux) matrix=g ;;
    esac
    for variant in $variants auto; do
        for mnk in "64 64 64" "8 16 8" "129 256 128" "200 528 72" "300 1040 584" "1000 144 1000" "72 2064 40"; do
            read -r m n k <<< "$mnk"
            check $fn "$variant" -s M=$m -s N=$n -s K=$k "${more[@]}"
        done
    done
    size=(-s M=200 -s N=528 -s K=72 "${more[@]}")
    check $fn auto --pad $matrix=16 "${size[@]}"
    check $fn auto --pad $matrix=3 "${size[@]}"
    check $fn auto --offset $matrix=2 "${size[@]}"
    check $fn auto --transpose $matrix "${size[@]}"
    check $fn auto -s M=77 -s N=531 -s K=72 "${more[@]}"
    [ $fast -gt 0 ] || { echo "FAIL $fn: no variant with slabs ran"; fail=$((fail + 1)); }
done
echo "$pass passed, $fail failed, $skip skipped"
[ $fail -eq 0 ]
