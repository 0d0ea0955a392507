#!/usr/bin/env bash
# On a machine with a GPU, after tests/gpu/pack.sh: every variant of tests/gpu/reduce.fk, forced, at
# sizes that hang over tiles and over blocks of what is reduced, three times for the same bits. A
# variant that a fn lacks, or that refuses the sizes, is counted as skipped; each fn must have run on
# a tensor-core variant.
#
#     tests/gpu/reduce.sh [FN...]      on another device, other programs: FKRUN_ARGS=--device=emu FKRUN MODULE
#
# The last line is "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.." || exit 1
[ -n "${MODULE:-}" ] || bash tests/gpu/unpack.sh || exit 1
run=${FKRUN:-build-gpu/fkrun} mod=${MODULE:-build-gpu/modules/gemm_reduce.fkm} pass=0 fail=0 skip=0 fast=0
sizes=${SIZES:-1,1,1 1,136,8 63,100,65 65,129,64 200,257,200 130,304,40 300,1040,584 1000,144,1000 72,2064,40}
check() { # FN VARIANT ARGUMENTS...
    local fn=$1 variant=$2 out rc force=()
    shift 2
    [ "$variant" = auto ] || force=(--variant "$variant")
    # shellcheck disable=SC2086
    out=$(timeout 60 $run ${FKRUN_ARGS:-} --check --check-seconds 3 --repeat 3 --fn "$fn" "${force[@]}" "$@" $mod 2>&1)
    rc=$?
    if [ $rc -eq 0 ]; then
        pass=$((pass + 1))
        [ "$variant" = auto ] || fast=$((fast + 1))
    elif grep -q UNSUPPORTED <<< "$out"; then skip=$((skip + 1))
    else
        fail=$((fail + 1))
        [ $fail -le 12 ] && { echo "FAIL $fn $variant $*"; head -n 3 <<< "$out"; }
    fi
}
all=$($run --list $mod | sed -n 's/^LIST \([^ ]*\) .* step=0 .*/\1/p')
for fn in ${*:-$all}; do
    fast=0 seen=
    header=$($run --list --fn "$fn" $mod | head -n 1)
    variants=$($run --list --fn "$fn" $mod | sed -n 's/^  variant=\([^ ]*\) .*/\1/p' | sort -u | grep -vx general)
    for variant in $variants auto; do
        for mnk in $sizes; do
            IFS=, read -r m n k <<< "$mnk"
            args=()
            [[ $header == *" M="* ]] && args+=(-s M="$m")
            [[ $header == *" N="* ]] && args+=(-s N="$n")
            [[ $header == *" B="* ]] && args+=(-s B=2)
            args+=(-s K="$k")
            [[ $seen == *"<$variant ${args[*]}>"* ]] && continue # a fn of one size less
            seen+="<$variant ${args[*]}>"
            check "$fn" "$variant" "${args[@]}"
        done
    done
    [ $fast -gt 0 ] || { echo "FAIL $fn: no tensor-core variant ran"; fail=$((fail + 1)); }
done
echo "$pass passed, $fail failed, $skip skipped"
[ $fail -eq 0 ]
