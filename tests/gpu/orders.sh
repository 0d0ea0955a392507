#!/usr/bin/env bash
# On a machine with a GPU, after tests/gpu/pack.sh: every variant of tests/gpu/orders.fk, forced, at
# sizes that hang over tiles and stages. A variant that a fn lacks, or that refuses the sizes, is
# counted as skipped; each fn must have run on a fast variant at some sizes.
#
# The last line is "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.." || exit 1
run=build-gpu/fkrun mod=build-gpu/modules/gemm_orders.fkm pass=0 fail=0 skip=0
for fn in nt nn tt tn out heads inner lone; do
    fast=0 batch=()
    [[ $fn =~ heads|inner|lone ]] && batch=(-s B=3)
    [ $fn = heads ] && batch+=(-s H=8)
    for variant in coop_128x256_2x1 coop_256x128 coop_256x128_1x2 coop_128x128 pingpong_192x128_1x2 pingpong_128x128 pingpong_128x128_2x1 pingpong_64x128 thin_64x32 swap_64x16 direct_128x256 auto; do
        force=(--variant $variant)
        [ $variant = auto ] && force=()
        for mnk in "8 8 8" "64 64 64" "128 256 128" "136 264 72" "1000 136 1000" "72 1032 584" "264 520 4096"; do
            read -r m n k <<< "$mnk"
            out=$(timeout 60 $run --check --check-seconds 3 --repeat 3 --fn $fn -s M=$m -s N=$n -s K=$k "${batch[@]}" "${force[@]}" $mod 2>&1)
            rc=$?
            if [ $rc -eq 0 ]; then
                pass=$((pass + 1))
                [ $variant != auto ] && fast=$((fast + 1))
            elif grep -q UNSUPPORTED <<< "$out"; then skip=$((skip + 1))
            else
                fail=$((fail + 1))
                [ $fail -le 12 ] && { echo "FAIL $fn $variant $mnk"; head -n 3 <<< "$out"; }
            fi
        done
    done
    [ $fast -gt 0 ] || { echo "FAIL $fn: no fast variant ran"; fail=$((fail + 1)); }
done
echo "$pass passed, $fail failed, $skip skipped"
[ $fail -eq 0 ]
