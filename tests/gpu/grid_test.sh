#!/usr/bin/env bash
# The grid without a GPU: grid.py makes the same files each time; its programs compile, its cases are
# launches that a device takes (a fake one, which computes nothing) and have references worth comparing
# with; a wrong reference differs by more than --check allows; grid.sh counts what it is told.
. "$(dirname "$0")/../cli/lib.sh"
graft=$GRAFT gpu=$root/tests/gpu
export FK_EMU=$FK_FAKE_EMU

# ---- programs and cases ----
mkdir one two
run 0 "programs" python3 "$gpu/grid.py" programs one
run 0 "the same again" python3 "$gpu/grid.py" programs two
holds "the same files" diff -r one two
holds "some dozens" test "$(ls one | grep -c '^[befw].*fk$')" -ge 60
for f in one/*.fk; do
    run 0 "$f" "$fkc" --ptxas=none --arch=sm_80 "$f" -o "${f%.fk}.fkm"
done
cp one/*.fkm two
run 0 "cases" python3 "$gpu/grid.py" cases one "$fkrun" one
run 0 "the same again" python3 "$gpu/grid.py" cases two "$fkrun" one
holds "the same cases" cmp one/cases.txt two/cases.txt
holds "600 that are drawn, and more" test "$(wc -l < one/cases.txt)" -ge 1000
for what in M=1752 N=1752 K=0 K=4096 K=511 offset=x offset=w offset=c offset=y offset=q transpose=w pad=x repeat=200; do
    holds "$what occurs" grep -qE -e "[ -]$what( |=|\$)" one/cases.txt
done
# One in twelve on the fake device; one in six of the small ones by the reference.
awk 'NR % 12 == 0' one/cases.txt | sed 's/--check --check-seconds=10 --repeat=[0-9]*/--device=emu/' > launches
run 0 "launches" "$fkrun" --cases=launches
holds "all of them" test "$(grep -c '^DONE' "$out")" = "$(wc -l < launches)"
awk '{ v = 1; for (i = 1; i <= NF; i++) if ($i == "-s") { split($(i + 1), a, "="); v *= a[2] + 1 } }
    v < 1500000 && ++n % 6 == 0' one/cases.txt |
    sed 's/--check --check-seconds=10 --repeat=[0-9]*/--reference/; s/--variant=[^ ]*//' > references
run 0 "references" "$fkrun" --cases=references
holds "all of them" test "$(grep -c '^REFERENCE' "$out")" = "$(wc -l < references)"
hasnt "$out" "nan"
holds "worth comparing with" awk '/rms 0,/ { zero = 1 } /^CASE/ { if (zero && !/--zero/) exit 1; zero = 0 }' "$out"

# ---- wrong references ----
cat > differs.py <<'END'
import math, struct, sys
def values(path):
    b = open(path, "rb").read()
    at = 10 + struct.unpack("<H", b[8:10])[0]
    assert b"'<f4'" in b[:at]
    return struct.unpack(f"<{(len(b) - at) // 4}f", b[at:])
a, b, norm, element = values(sys.argv[1]), values(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
total = math.sqrt(sum(y * y for y in b))
rms = total / math.sqrt(len(b))
off = math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)))
sys.exit(not (off > norm * total or any(abs(x - y) > element * max(abs(y), rms) for x, y in zip(a, b))))
END
for f in one/wrong_*.fkm; do
    name=$(basename "$f" .fkm) name=${name#wrong_}
    run 0 "graft $name" "$graft" "$f" "one/other_$name.fkm" "grafted_$name.fkm"
    bad=$(sed 's/other_/wrong_/' "one/other_$name.fk" | tail -n 3)
    args=$(grep "/wrong_$name.fkm" one/wrong.txt | sed "s/--check/--reference/; s/[^ ]*\.fkm//")
    # shellcheck disable=SC2086
    run 0 "$name" "$fkrun" $args -o y=right.npy "$f"
    # shellcheck disable=SC2086
    run 0 "$name, grafted" "$fkrun" $args -o y=wrong.npy "grafted_$name.fkm"
    if grep -q 'y: f32' "one/wrong_$name.fk"; then rule="2e-5 1.3e-4"; else rule="3e-3 1.6e-2"; fi
    # shellcheck disable=SC2086
    holds "$name differs: $bad" python3 differs.py right.npy wrong.npy $rule
done
run 1 "not the same fns" "$graft" one/wrong_bias.fkm one/other_sign.fkm x.fkm
holds "no module" test ! -e x.fkm

# ---- what grid.sh counts ----
cat > told.sh <<'END'
#!/bin/bash
for a; do case $a in --cases=*) file=${a#*=} ;; esac; done
n=0
while read -r line; do
    n=$((n + 1))
    case $line in
    *died*) kill -SEGV $$ ;;
    *hung*) echo "CASE $n exit 124: $line"; exit 124 ;;
    *broke*) printf '%s\n' "fkrun: error: no (DRIVER)" "CASE $n exit 3: $line" \
        "fkrun: error: the device is broken after line $n; the rest is left"; exit 3 ;;
    *refused*) printf '%s\n' "fkrun: error: no variant (UNSUPPORTED)" "CASE $n exit 3: $line" ;;
    *wrong_found* | *failed*) printf '%s\n' "FAIL f samples=9 variant=general" "  y[0]: got 1" "CASE $n exit 1: $line" ;;
    *) printf '%s\n' "PASS f samples=9 variant=coop_128x256,general" "CASE $n exit 0: $line" ;;
    esac
done < "$file"
END
chmod +x told.sh
mkdir told
for i in $(seq 40); do echo "--check at/bf16_nt_case_$i.fkm"; done > told/cases.txt
echo "--check at/wrong_found.fkm" > told/wrong.txt
grid() { env FKRUN="$work/told.sh" GRID_DIR="$work/told" bash "$gpu/grid.sh" "$@"; }
run 0 "all pass" grid 3
has "$out" "40 passed, 0 failed, 0 skipped, 0 not run"
has "$out" "   40 coop_128x256"
has "$out" "   40 general"
has "$out" "bf16 nt    40    40"
has "$out" "1 of 1 wrong references found"
run 0 "some of them" grid 3 60 'case_1[0-9]*\.fkm'
has "$out" "11 passed, 0 failed, 0 skipped, 0 not run"
for i in 1 2 3; do
    printf '%s\n' "--check at/f16_nn_died_$i.fkm" "--check at/f16_nn_hung_$i.fkm" "--check at/f16_nn_broke_$i.fkm" \
        "--check --variant=v at/f16_nn_refused_$i.fkm" "--check at/f16_nn_failed_$i.fkm" "--check at/f16_nn_fine_$i.fkm"
done >> told/cases.txt
run 1 "not all" grid 3
has "$out" "43 passed, 12 failed, 3 skipped, 0 not run"
has "$out" "FAIL (exit 139) $work/told.sh --check at/f16_nn_died_2.fkm"
has "$out" "FAIL (exit 124) $work/told.sh --check at/f16_nn_hung_3.fkm"
has "$out" "FAIL (exit 3) $work/told.sh --check at/f16_nn_broke_1.fkm"
has "$out" "  y[0]: got 1"
has "$work/told.log" "43 passed"
echo "--check at/wrong_missed.fkm" >> told/wrong.txt
run 1 "a wrong reference that is not found" grid 3
has "$out" "NOT FOUND (exit 0), a wrong reference: $work/told.sh --check at/wrong_missed.fkm"
has "$out" "1 of 2 wrong references found"
run 1 "no time" grid 3 0
has "$out" "0 passed, 0 failed, 0 skipped, 58 not run"
ends
