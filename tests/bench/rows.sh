#!/usr/bin/env bash
# The rows of gemm.py, and what it says where its GPU process does not start.
set -u
cd "$(dirname "$0")" || exit 1
command -v python3 > /dev/null || { echo "skipped: no python3 here"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1
work=$(mktemp -d) fail=0
trap 'rm -rf "$work"' EXIT
wrong() { echo "WRONG: $*"; fail=1; }
python3 gemm.py "$work" --list --seed 5 > "$work/list" || wrong "the list, code $?"
for row in "nine 27" "orders 8" "unseen 12" "gated 2" "odd 2" "fp8 4" "thin 6"; do
    read -r suite n <<< "$row"
    [ "$(grep -c "^$suite " "$work/list")" = "$n" ] || wrong "$suite has not $n rows"
done
python3 gemm.py "$work" unseen --list --seed 5 | cmp -s - <(grep ^unseen "$work/list") || wrong "a seed gives other shapes"
python3 gemm.py "$work" unseen --list --seed 6 | cmp -s - <(grep ^unseen "$work/list") && wrong "seeds do not matter"
while read -r module fn; do # every fn that a row names is in its program
    module=${module%_fast}; [[ $module = unseen_* ]] && module=gemm
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
[ $fail = 0 ] && echo "all right"
exit $fail
