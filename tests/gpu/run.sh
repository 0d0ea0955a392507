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
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
check() { # NAME ARGUMENTS...: later
    local name=$1
    shift
    echo "$name --check --check-seconds 8 $* $mods/$name.fkm" >> "$work/list"
}
check_now() { # NUMBER NAME ARGUMENTS...
    local n=$1 name=$2 rc
    shift 2
    timeout 300 $run "$@" > "$work/$n.out" 2>&1
    rc=$?
    [ $rc -eq 0 ] || { echo "FAIL ($rc) $name $*"; head -n 4 "$work/$n.out"; } > "$work/$n.fail"
    sed -i "1s|^|$name: |" "$work/$n.out"
}
export -f check_now
export run work
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
cat -n "$work/list" | xargs -P 8 -L 1 bash -c 'check_now "$@"' check_now
cat "$work"/*.out >> "$log"
cat "$work"/*.fail 2> /dev/null
fail=$(find "$work" -name '*.fail' | wc -l)
pass=$(($(find "$work" -name '*.out' | wc -l) - fail))
[ $((pass + fail)) -eq "$(wc -l < "$work/list")" ] || { echo "FAIL some did not run"; fail=$((fail + 1)); }
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
