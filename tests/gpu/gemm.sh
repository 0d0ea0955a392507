#!/usr/bin/env bash
# On a machine with a GPU, after tests/gpu/pack.sh: every variant of tests/gpu/gemm.fk, forced, at
# ragged sizes; variants that refuse the sizes or layouts are counted apart. Outputs are compared
# with the reference and between three launches, bit for bit.
#
# The last line is "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.." && bash tests/gpu/unpack.sh || exit 1
run=build-gpu/fkrun mod=build-gpu/modules/gemm_cases.fkm pass=0 fail=0 skip=0
for fn in bias_gelu rowcol two gated; do
    for variant in coop_128x256_2x1 pingpong_192x128_1x2 pingpong_128x128 pingpong_128x128_2x1 pingpong_64x128 thin_64x32 swap_64x16 direct_128x256 coop_128x128 auto; do
        force=(--variant $variant)
        [ $variant = auto ] && force=()
        for mnk in "1 8 64" "64 64 64" "128 256 128" "127 129 72" "129 257 520" "255 1000 584" "1000 136 1024" "300 520 8" "2000 1032 256"; do
            read -r m n k <<< "$mnk"
            out=$(timeout 60 $run --check --check-seconds 3 --repeat 3 --fn $fn -s M=$m -s N=$n -s K=$k "${force[@]}" $mod 2>&1)
            rc=$?
            if [ $rc -eq 0 ]; then pass=$((pass + 1))
            elif grep -q UNSUPPORTED <<< "$out"; then skip=$((skip + 1))
            else
                fail=$((fail + 1))
                [ $fail -le 12 ] && { echo "FAIL $fn $variant $mnk"; head -n 3 <<< "$out"; }
            fi
        done
    done
done
echo "$pass passed, $fail failed, $skip skipped"
[ $fail -eq 0 ]
