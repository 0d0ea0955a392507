#!/usr/bin/env bash
# The bars of attention that need no GPU, on two idle cores: how long fkc takes with all sizes bound (PTX;
# with ptxas, to machine code), whether a variant spills or ptxas warns (C7508 to C7518), and how long the
# emulated device takes. Medians of five, of the emulated device one run.
#
#     tests/bench/host.sh [BUILD]            default: build
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build} fail=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bind="--bind G=4 --bind B=4 --bind S=4096 --bind T=4096 --bind H=16 --bind E=128"

seconds() { # COMMAND...: the median of five, by the wall
    for _ in 1 2 3 4 5; do
        local a=$EPOCHREALTIME
        "$@" > "$work/out" 2> "$work/err" || { cat "$work/err" >&2; echo failed; return; }
        awk -v a="$a" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }'
    done | sort -n | sed -n 3p
}

bar() { # WHAT SECONDS MOST
    if awk -v s="$2" -v most="$3" 'BEGIN { exit !(s + 0 > 0 && s <= most) }'; then echo "PASS $1: $2 s (bar $3 s)"
    else echo "FAIL $1: $2 s (bar $3 s)"; fail=1; fi
}

echo "load before: $(cut -d' ' -f1-3 /proc/loadavg); cores: $(nproc)"
# shellcheck disable=SC2086
bar "attention.fk, sizes bound, to PTX" "$(seconds "$build/fkc" --no-expect --ptxas=none $bind examples/attention.fk -o "$work/ptx.fkm")" 0.5
# shellcheck disable=SC2086
bar "attention.fk, sizes bound, to machine code" "$(seconds "$build/fkc" --no-expect $bind examples/attention.fk -o "$work/a.fkm")" 2

# shellcheck disable=SC2086
"$build/fkc" --no-expect $bind --emit=report examples/attention.fk > "$work/report" 2>&1
"$build/fkrun" --list "$work/a.fkm" | grep '^  variant=' | grep -v 'variant=general ' > "$work/list"
loud=$(grep -oE 'C75(0[89]|1[0-8])|had to serialise|spill[a-z]* registers' "$work/report" | sort | uniq -c | tr '\n' ' ')
spill=$(grep -E 'spilt=[1-9]' "$work/list" | sed 's/^  variant=\([^ ]*\).*\(spilt=[0-9]*\).*/\1 \2/' | tr '\n' ' ')
if [ -s "$work/list" ] && [ -z "$loud$spill" ]; then
    echo "PASS $(wc -l < "$work/list") fast variants of attention.fk: none spills, ptxas says nothing"
else
    echo "FAIL $(wc -l < "$work/list") fast variants of attention.fk: ptxas said '$loud', spills: $spill"
    fail=1
fi

for fn in full causal; do
    "$build/fkc" --no-expect --ptxas=none --bind E=128 tests/bench/attention.fk -o "$work/e.fkm" 2> /dev/null
    a=$EPOCHREALTIME
    "$build/fkrun" --device=emu --check --fn $fn -s B=1 -s H=1 -s S=256 "$work/e.fkm" > "$work/out" 2>&1 || { cat "$work/out"; fail=1; }
    bar "emulated device, $fn S 256 d 128 ($(sed -n 's/.*variant=//p' "$work/out"))" "$(awk -v a="$a" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')" 10
done
exit $fail
