#!/usr/bin/env bash
# The rows of gemm.py and attention.py, and what they say where their GPU process does not start; what
# util.sh makes of ncu's figures.
set -u
cd "$(dirname "$0")" || exit 1
command -v python3 > /dev/null || { echo "skipped: no python3 here"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1
work=$(mktemp -d) fail=0
trap 'rm -rf "$work"' EXIT
wrong() { echo "WRONG: $*"; fail=1; }
python3 gemm.py "$work" --list --seed 5 > "$work/list" || wrong "the list, code $?"
for row in "nine 27" "orders 8" "unseen 12" "gated 2" "odd 2" "fp8 4" "thin 6" "fp8block 2" "w4a16 5" "sm80 11"; do
    read -r suite n <<< "$row"
    [ "$(grep -c "^$suite " "$work/list")" = "$n" ] || wrong "$suite has not $n rows"
done
python3 gemm.py "$work" unseen --list --seed 5 | cmp -s - <(grep ^unseen "$work/list") || wrong "a seed gives other shapes"
python3 gemm.py "$work" unseen --list --seed 6 | cmp -s - <(grep ^unseen "$work/list") && wrong "seeds do not matter"
while read -r module fn; do # every fn that a row names is in its program
    module=${module%_fast} module=${module%_sm80}; [[ $module = unseen_* ]] && module=gemm
    grep -q "^fn $fn(" "$module.fk" || wrong "$module.fk has no fn $fn"
done < <(sed -n 's/.* \([a-z0-9_]*\):\([a-z_]*\) [0-9]*x.*/\1 \2/p' "$work/list" | sort -u)
python3 gemm.py "$work" nosuch > /dev/null 2>&1 && wrong "a suite that is none"
mkdir "$work/torch" && echo 'raise ImportError("none here")' > "$work/torch/__init__.py"
PYTHONPATH=$work python3 gemm.py "$work" odd --out "$work" > "$work/out"
[ $? = 1 ] || wrong "nothing measured, and not code 1"
grep -q "does not start" "$work/out" || wrong "no word of why"
[ "$(grep -c ^FAIL "$work/out")" = 2 ] || wrong "a bar that nothing measured is not failed"
cat > "$work/rows.jsonl" << 'END'
{"date": "2026-12-01 10:00", "seed": null, "suite": "odd", "group": "g", "fn": "plain", "shape": "1x2x3", "against": "mm", "unit": "TFLOP/s", "flush": "zero", "variant": "v", "ours": 2.0, "theirs": 1.0, "ratio": 2.0, "rounds": 25, "launches": 1}
{"date": "2026-12-01 10:01", "seed": null, "suite": "odd", "group": "g", "fn": "plain", "shape": "1x2x4", "against": "mm", "unit": "TFLOP/s", "flush": "zero", "failure": "it broke"}
END
python3 table.py "$work/rows.jsonl" > "$work/table" || wrong "the table, code $?"
grep -q '^| plain 1x2x3 | v | 2.0 | 1.0 | 2.000 | 25 x 1, zero |' "$work/table" || wrong "no row in the table"
grep -q 'it broke' "$work/table" || wrong "a failure is left out"

# ---- the block: the example but for one rounding ----
sed -n '/^const/,$p' block.fk | sed 's/r\[t, d\]: bf16 =/r[t, d] =/' | cmp -s - <(sed -n '/^const/,$p' ../../examples/transformer_block.fk) ||
    wrong "block.fk and examples/transformer_block.fk differ in more than r"

# ---- rows ----
python3 rowwise.py "$work" --list > "$work/list" || wrong "the list of rowwise.py, code $?"
[ "$(grep -c "^rows " "$work/list")" = 15 ] || wrong "rows has not 15 rows"
[ "$(grep -c "^long " "$work/list")" = 3 ] || wrong "long has not 3 rows"
[ "$(grep -c "^more " "$work/list")" = 34 ] || wrong "more has not 34 rows"
sed -n 's/.*rowwise:\([a-z_]*\) .*/\1/p' "$work/list" | sort -u | while read -r fn; do
    grep -q "^fn $fn(" rowwise.fk || echo "rowwise.fk has no fn $fn"
done > "$work/none"
[ -s "$work/none" ] && wrong "$(cat "$work/none")"
PYTHONPATH=$work python3 rowwise.py "$work" long more --out "$work" > "$work/out"
[ $? = 1 ] || wrong "nothing measured, and not code 1"
[ "$(grep -c ^FAIL "$work/out")" = 7 ] || wrong "a bar of rows that nothing measured is not failed"

# ---- attention ----
python3 attention.py "$work" --list > "$work/list" || wrong "the list of attention.py, code $?"
for row in "forward 18" "f16 18" "mods 6" "decode 23" "ce 1" "accuracy 24" "util 4" "edge 1"; do
    read -r suite n <<< "$row"
    [ "$(grep -c "^$suite " "$work/list")" = "$n" ] || wrong "$suite has not $n rows"
done
python3 attention.py "$work" --list --bound | sed 's/.* \([A-Za-z0-9_]*:[a-z_]*\) .*/\1/' > "$work/bound"
sed 's/.* \([A-Za-z0-9_]*:[a-z_]*\) .*/\1/' "$work/list" >> "$work/bound"
python3 attention_suites.py > "$work/modules" || wrong "the modules, code $?"
while IFS=: read -r module fn; do
    file=$(sed -n "s/^$module \([^ ]*\).*/\1/p" "$work/modules")
    grep -q "^fn $fn(" "../../$file" || wrong "module $module, of '$file', has no fn $fn"
done < <(sort -u "$work/bound")
python3 attention.py "$work" forward --dry > "$work/out" 2>&1 && wrong "no module is there, and not code 1"
grep -q "^0 of 18 rows" "$work/out" || wrong "no word of missing modules"
PYTHONPATH=$work python3 attention.py "$work" accuracy ce --out "$work" > "$work/out"
[ $? = 1 ] || wrong "nothing measured, and not code 1"
[ "$(grep -c ^FAIL "$work/out")" = 3 ] || wrong "a bar of attention that nothing measured is not failed"
cat > "$work/bars.py" <<'END'
import sys
import attention_suites as a, runner
rows = a.suite_forward(None) + a.suite_accuracy(None) + a.suite_ce(None) + a.suite_util(None)
good = dict(ours=1.0, ratio=1.2, errors=[2e-4, 1e-6], workspace=0, util=0.9)
everything = lambda **k: {i: {**good, **k} for i in range(len(rows))}
print(runner.put_bars(a, rows, everything()), runner.put_bars(a, rows, everything(ratio=1.17)),
      runner.put_bars(a, rows, everything(errors=[2e-4, 2e-5])), runner.put_bars(a, rows, everything(workspace=65e6)),
      runner.put_bars(a, rows, everything(util=0.83)), runner.put_bars(a, rows, {**everything(), 3: {**good, "ratio": 0.9}}),
      runner.put_bars(a, rows, {**everything(), 5: {"failure": "x"}}), file=sys.stderr)
END
PYTHONPATH=. python3 "$work/bars.py" > "$work/out" 2> "$work/verdicts"
[ "$(cat "$work/verdicts")" = "True False False False False False False" ] || wrong "bars: $(cat "$work/verdicts")"
cat > "$work/ncu" <<'END'
#!/bin/bash
while [ "$1" != --log-file ]; do shift; done
[ "$SAYS" = none ] && exit 1
{
    echo "==PROF== Connected"
    echo '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
    for i in 1 2 3 4 5; do echo "\"$i\",\"full.0\",\"sm__cycles_elapsed.max\",\"cycle\",\"$SAYS\""; done
} > "$2"
END
chmod +x "$work/ncu"
flop=$((4 * 4 * 16 * 128 * 4096 * 4096))
cycles=$((flop / 132 / 4096 * 10 / 9)) # 90 %
NCU=$work/ncu SAYS=$(sed ':a;s/\B[0-9]\{3\}\>/,&/;ta' <<< $cycles) bash util.sh 'full .*S=4096' > "$work/out" || wrong "util.sh: $(cat "$work/out")"
grep -q "^PASS .* 90.0 % (bar 82 %)" "$work/out" || wrong "util.sh: $(cat "$work/out")"
NCU=$work/ncu SAYS=$((cycles * 2)) bash util.sh 'full .*S=4096' > "$work/out" && wrong "half as much passes: $(cat "$work/out")"
NCU=$work/ncu SAYS=none bash util.sh 'full .*S=4096' > "$work/out" && wrong "nothing measured passes"

[ $fail = 0 ] && echo "all right"
exit $fail
