#!/usr/bin/env bash
# On a machine with a GPU, after tests/gpu/pack.sh: what share of the tensor cores' peak our attention
# reaches, by ncu's count of cycles (sm__cycles_elapsed.max, summed over the kernels of a launch): FLOP /
# (132 * 4096 * cycles). Clocks are left alone: cycles know neither clock nor power. Beside it stands
# `tests/bench/attention.py BUILD util`, which reads the cycle counters around a launch without ncu.
#
#     tests/bench/util.sh [--bound] [--dry] [PATTERN]     rows of the suite `util` that match; --dry: only shows
#                                                         the commands; NCU, FKRUN name other programs
set -u
cd "$(dirname "$0")/../.." && bash tests/gpu/unpack.sh || exit 1
bound='' dry='' pattern=.
for a; do case $a in --bound) bound=1 ;; --dry) dry=1 ;; *) pattern=$a ;; esac; done
ncu=${NCU:-$(command -v ncu || echo /usr/local/cuda/bin/ncu)} run=${FKRUN:-build-gpu/fkrun}
work=$(mktemp -d) fail=0
trap 'rm -rf "$work"' EXIT
BOUND=$bound PYTHONDONTWRITEBYTECODE=1 python3 - > "$work/rows" <<'END'
import os, sys
sys.path.insert(0, "tests/bench")
import attention_suites as a
for r in a.suite_util(None):
    bar, r = r.util, a.bound(r) if os.environ["BOUND"] else r
    print(r.module, r.fn, int(r.work), bar, *(f"-s {n}={v}" for n, v in r.free.items()))
END
while read -r module fn work_flop bar sizes; do
    grep -q -e "$pattern" <<< "$module $fn $sizes" || continue
    command=("$ncu" --clock-control none --cache-control none --csv --log-file "$work/csv"
        --metrics sm__cycles_elapsed.max "$run" --repeat=5 --fn "$fn" $sizes "build-gpu/modules/$module.fkm")
    [ -n "$dry" ] && { echo "${command[*]}"; continue; }
    timeout -k 5 120 "${command[@]}" > "$work/out" 2>&1 || { echo "FAIL $module $fn $sizes"; tail -q -n 5 "$work/out" "$work/csv" 2> /dev/null; fail=1; continue; }
    python3 - "$work/csv" "$work_flop" "$bar" "$module $fn $sizes" <<'END' || fail=1
import csv, statistics, sys
path, work, bar, name = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
rows = list(csv.reader(line for line in open(path) if line.startswith('"')))
at = {key: i for i, key in enumerate(rows[0])}
seen = {}  # kernel: cycles of its launches
for r in rows[1:]:
    if r[at["Metric Name"]] == "sm__cycles_elapsed.max":
        seen.setdefault(r[at["Kernel Name"]], []).append(float(r[at["Metric Value"]].replace(",", "")))
if not seen:
    sys.exit(f"FAIL {name}: no kernel was measured")
least = min(map(len, seen.values()))
cycles = sum(statistics.median(c) * (len(c) // least) for c in seen.values())
util = work / (132 * 4096 * cycles)
print(f"{'PASS' if util >= bar else 'FAIL'} {name}: {100 * util:.1f} % (bar {100 * bar:.0f} %), {cycles:.0f} cycles, "
      f"{len(seen)} kernels x {least}: {', '.join(seen)}")
sys.exit(util < bar)
END
done < "$work/rows"
exit $fail
