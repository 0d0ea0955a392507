#!/usr/bin/env bash
# On a machine with a GPU, after tests/gpu/pack.sh: every variant of tests/gpu/orders.fk and of
# tests/gpu/fp8.fk (as it is, and compiled with --fast-accum), forced, at sizes that hang over tiles
# and stages. Outputs are compared with the reference and between three launches, bit for bit. A
# variant that refuses the sizes is skipped; each fn must have run on a fast one at some sizes.
#
# The last line is "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.." && bash tests/gpu/unpack.sh || exit 1
run=build-gpu/fkrun pass=0 fail=0 skip=0

one() { # MODULE FN VARIANT "M N K" OPTIONS...
    local module=build-gpu/modules/$1.fkm fn=$2 variant=$3 sizes=$4 force=() m n k out rc
    shift 4
    [ "$variant" = auto ] || force=(--variant "$variant")
    read -r m n k <<< "$sizes"
    out=$(timeout 60 $run --check --check-seconds 3 --repeat 3 --fn "$fn" -s M=$m -s N=$n -s K=$k "$@" "${force[@]}" $module 2>&1)
    rc=$?
    if [ $rc -eq 0 ]; then
        pass=$((pass + 1))
        [ "$variant" = auto ] || fast=$((fast + 1))
    elif grep -q UNSUPPORTED <<< "$out"; then skip=$((skip + 1))
    else
        fail=$((fail + 1))
        [ $fail -le 12 ] && { echo "FAIL $module $fn $variant $sizes"; head -n 3 <<< "$out"; }
    fi
}

all() { # MODULE FN "VARIANTS" OPTIONS...
    local module=$1 fn=$2 variants=$3 variant mnk fast=0
    shift 3
    case $fn in
    heads) set -- "$@" -s B=3 -s H=8 ;;
    inner | lone) set -- "$@" -s B=3 ;;
    esac
    for variant in $variants auto; do
        for mnk in "${sizes[@]}"; do one "$module" "$fn" "$variant" "$mnk" "$@"; done
    done
    [ $fast -gt 0 ] || { echo "FAIL $module $fn: no fast variant ran"; fail=$((fail + 1)); }
}

# rows of 16 bytes and more, so that TMA takes them
sizes=("8 8 8" "64 64 64" "128 256 128" "136 264 72" "1000 136 1000" "72 1032 584" "264 520 4096")
wide="coop_128x256_2x1 coop_256x128 coop_256x128_1x2 coop_128x128 pingpong_192x128_1x2 pingpong_128x128 pingpong_128x128_2x1 pingpong_64x128 thin_64x32 swap_64x16 direct_128x256"
for fn in nt nn tt tn out heads inner lone; do all gemm_orders $fn "$wide"; done
sizes=("8 16 16" "64 64 64" "128 256 128" "136 264 80" "1000 136 1008" "72 1040 592" "264 528 4096" "1 24 2064")
promoted="turns_128x192 coop_128x192 turns_128x256 turns_128x256_2x1 overlap_128x192 pingpong_128x96 pingpong_64x128 thin_64x32 swap_64x16 direct_128x192"
for fn in plain rows inside chain heads; do all fp8_cases $fn "$promoted"; done
all fp8_cases wide "$wide"
for fn in plain rows inside chain heads; do all fp8_cases_fast $fn "pingpong_128x192 $wide" --fast-accum; done
echo "$pass passed, $fail failed, $skip skipped"
[ $fail -eq 0 ]
