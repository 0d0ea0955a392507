#!/usr/bin/env bash
# On a machine with a GPU, after tests/gpu/pack.sh: every accepted program at two drawn sizes, every
# case at the sizes its "# run:" lines give ("# big:" ones too with --big), the API tests.
#
#     tests/gpu/run.sh [--big] [LOG]       LOG: default build-gpu/check.log
#
# The last line is "N passed, N failed".
set -u
cd "$(dirname "$0")/../.." && bash tests/gpu/unpack.sh || exit 1
big= log=build-gpu/check.log
for a; do [ "$a" = --big ] && big=1 || log=$a; done
run=build-gpu/fkrun mods=build-gpu/modules pass=0 fail=0
: > "$log"
check() { # NAME ARGUMENTS...
    local name=$1 out rc
    shift
    out=$(timeout 300 $run --check --check-seconds 8 "$@" "$mods/$name.fkm" 2>&1)
    rc=$?
    printf '%s: %s\n' "$name" "$out" >> "$log"
    if [ $rc -eq 0 ]; then
        pass=$((pass + 1))
    else
        fail=$((fail + 1))
        echo "FAIL ($rc) $name $*"
        printf '%s\n' "$out" | head -n 4
    fi
}
$run --version >> "$log"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader >> "$log"
date -u +%F >> "$log"
for f in tests/programs/*.fk examples/*.fk; do
    head -n 1 "$f" | grep -q '^# refused' && continue
    for seed in 1 2; do check "$(basename "$f" .fk)" --seed $seed; done
done
for f in tests/cases/*.fk; do
    while read -r kind words; do
        [ "$kind" = big: ] && [ -z "$big" ] && continue
        args=()
        for w in $words; do
            case $w in
            [A-Z]*=*) args+=(--size "$w") ;;
            *) args+=("$w") ;;
            esac
        done
        check "$(basename "$f" .fk)" "${args[@]}"
    done < <(sed -n 's/^# \(run:\|big:\)/\1/p' "$f")
done
# A59: the same mask from two tilings of the same program, bit for bit
for m in a59_dropout nofuse_dropout; do
    $run --size M=64 --size N=100 --seed 5 --check --zero none --out y=build-gpu/$m.npy $mods/$m.fkm >> "$log" 2>&1 ||
        echo "FAIL $m"
done
if cmp build-gpu/a59_dropout.npy build-gpu/nofuse_dropout.npy; then
    pass=$((pass + 1))
else
    fail=$((fail + 1))
    echo "FAIL dropout, fused and not fused"
fi
api=$(LD_LIBRARY_PATH=build-gpu build-gpu/gpu_by_hand build-gpu/grid.ptx; timeout 500 build-gpu/gpu_api $mods/a13_grid.fkm $mods/jit_grid.fkm $mods/a59_dropout.fkm 2>&1)
printf '%s\n' "$api" | tee -a "$log"
pass=$((pass + $(grep -c '^PASS' <<< "$api"))) fail=$((fail + $(grep -c '^F' <<< "$api")))
echo "$pass passed, $fail failed" | tee -a "$log"
[ $fail -eq 0 ]
