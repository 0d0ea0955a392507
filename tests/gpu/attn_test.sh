#!/usr/bin/env bash
# The grid of attention without a GPU: attn.py makes the same files each time; the first of its programs,
# which have every mask, score, layout and so on, are right on the emulated device at small sizes; a wrong
# reference is found there.
. "$(dirname "$0")/../cli/lib.sh"
gpu=$root/tests/gpu
export PYTHONDONTWRITEBYTECODE=1
mkdir one two
run 0 "programs" python3 "$gpu/attn.py" programs one
run 0 "the same again" python3 "$gpu/attn.py" programs two
holds "the same files" diff -r one two
holds "some dozens" test "$(ls one | grep -c '^[bf].*fk$')" -ge 80
compile() { "$fkc" --ptxas=none --no-expect "one/$1.fk" -o "one/$1.fkm" 2> "one/$1.log"; }
for name in $(python3 "$gpu/attn.py" few) $(cd one && ls wrong_*.fk other_*.fk); do
    holds "$name compiles" compile "${name%.fk}"
done
run 0 "small cases" python3 "$gpu/attn.py" small one "$fkrun"
run 0 "on the emulated device" env FK_EMU_SEED=7 FK_EMU_SMS=3 "$fkrun" --cases=one/small.txt
grep -B1 '^CASE' "$out" | grep -B1 '^CASE.* exit [1-9]' | cut -c1-300 | head -n 9
holds "all right" test "$(grep -c '^CASE.* exit 0:' "$out")" = "$(wc -l < one/small.txt)"
for f in one/wrong_*.fkm; do
    other=${f/wrong_/other_}
    [ -e "$other" ] || continue # said above
    run 0 "graft $f" "$GRAFT" "$f" "$other" grafted.fkm
    args=$(grep "$f" one/wrong.txt | sed 's/[^ ]*\.fkm//')
    # shellcheck disable=SC2086
    run 0 "$f, against itself" "$fkrun" $args "$f"
    # shellcheck disable=SC2086
    run 1 "$f, against another" "$fkrun" $args grafted.fkm
    has "$out" "FAIL "
done

# ---- an element is held against its row, where rows differ in size ----
held() { # CODE NAME VALUE: where one row of 400 is not 0, is it right if the reference is VALUE there?
    echo "fn rows(x: f32[M, N]) -> (y: f16[M, N]) { y[m, n] = select(m == 0, x[m, n], 0.0) }" > right.fk
    echo "fn rows(x: f32[M, N]) -> (y: f16[M, N]) { y[m, n] = select(m == 0, $3, 0.0) }" > other.fk
    for f in right other; do run 0 "$f" "$fkc" --ptxas=none $f.fk -o $f.fkm; done
    run 0 "graft" "$GRAFT" right.fkm other.fkm grafted.fkm
    run "$1" "$2" "$fkrun" --device=emu --check -s M=400 -s N=64 grafted.fkm
}
held 0 "small beside its row" "x[m, n] + 1e-4"
held 1 "large beside its row" "x[m, n] + select(n == N - 1, 4e-3, 0.0)"
has "$out" "y[0, 63]"

# ---- all cases, of which fkrun is asked for variants only ----
printf '%s\n' '#!/bin/bash' 'echo "  variant=one predicted=1us"' 'echo "  variant=two predicted=1us"' \
    'echo "  variant=no predicted=1us not for these sizes"' > list.sh
chmod +x list.sh
run 0 "cases" python3 "$gpu/attn.py" cases one ./list.sh at
run 0 "the same again" python3 "$gpu/attn.py" cases two ./list.sh at
holds "the same cases" cmp one/cases.txt two/cases.txt
holds "500 and more" test "$(grep -vc -e --variant one/cases.txt)" -ge 500
hasnt one/cases.txt "variant=no"
for what in S=0 T=0 S=1 S=4250 T=4250 E=32 E=40 E=256 V=40 V=128 pad=c offset=q transpose=k variant=two; do
    holds "$what occurs" grep -qE -e "[ -]$what( |=|\$)" one/cases.txt
done
holds "16 of 200 launches" test "$(grep -c -e --repeat=200 one/cases.txt)" = 16
while read -r name; do
    holds "$name is a program" test -e "one/$name.fk"
done < <(sed 's|.* at/\(.*\)\.fkm|\1|' one/cases.txt | sort -u)
# One in four of those on the fake device, which takes the arguments and computes nothing.
for f in one/*.fkm; do grep "/${f#one/}" one/cases.txt; done | grep -v -e --variant |
    awk 'NR % 4 == 0' | sed 's/--check --check-seconds=[0-9]* --repeat=[0-9]*/--device=emu/; s| at/| one/|' > launches
run 0 "launches" env FK_EMU="$FK_FAKE_EMU" "$fkrun" --cases=launches
holds "all of them" test "$(grep -c '^DONE' "$out")" = "$(wc -l < launches)"
ends
