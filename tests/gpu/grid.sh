#!/usr/bin/env bash
# On a machine with a GPU, after tests/gpu/pack.sh: the correctness grid (tests/gpu/grid.py says what is
# in it), many cases at a time. Each is checked in norm and by element, in its guard bands and between
# three launches, bit for bit. Then the same of programs held against a wrong reference: all must fail.
#
#     tests/gpu/grid.sh [JOBS [SECONDS [PATTERN]]]     default: 12 at a time, no new ones after 400 s;
#                                                      with PATTERN only the cases that match it
#
# Writes build-gpu/grid.log. The last line is "N passed, N failed, N skipped, N not run".
set -u
cd "$(dirname "$0")/../.." || exit 1
jobs=${1:-12} run=${FKRUN:-build-gpu/fkrun} dir=${GRID_DIR:-build-gpu/grid}
log=$dir.log
export run
export GRID_END=$(($(date +%s) + ${2:-400}))
[ -n "${GRID_DIR:-}" ] || bash tests/gpu/unpack.sh || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A chunk of cases in one process; after a case that ended or broke it, the rest in another.
chunk() { # FILE: its log is FILE.log
    local left=$1 done total rc
    : > "$1.log"
    while [ -s "$left" ] && [ "$(date +%s)" -lt "$GRID_END" ]; do
        timeout -k 5 300 "$run" --cases="$left" --case-seconds=30 > "$1.part" 2>&1
        rc=$?
        cat "$1.part" >> "$1.log"
        done=$(sed -n 's/^CASE \([0-9]*\) exit .*/\1/p' "$1.part" | tail -n 1)
        done=${done:-0} total=$(wc -l < "$left")
        if [ "$done" -lt "$total" ] && ! grep -q '^CASE [0-9]* exit 124:\|the device is broken' "$1.part"; then
            done=$((done + 1)) # it died without a word
            echo "CASE $done exit $rc: $(sed -n ${done}p "$left")" >> "$1.log"
        fi
        tail -n +$((done + 1)) "$left" > "$1.next"
        mv "$1.next" "$left"
    done
}
export -f chunk

# First what must fail, then the grid.
cp "$dir/wrong.txt" "$work/wrong"
chunk "$work/wrong"
grep -E -e "${3:-.}" "$dir/cases.txt" > "$work/cases"
awk -v dir="$work" '{ print > (dir "/chunk" NR % 96) }' "$work/cases"
start=$(date +%s)
find "$work" -name 'chunk*' | xargs -P "$jobs" -I{} bash -c 'chunk {}'
{
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2> /dev/null
    date -u +%F
    cat "$work"/wrong.log "$work"/chunk*.log
} > "$log"
echo "$(wc -l < "$work/cases") cases in $(($(date +%s) - start)) s"

# What a case prints stands before its CASE line.
awk -v all="$(wc -l < "$work/cases")" -v wrongs="$(wc -l < "$dir/wrong.txt")" -v run="$run" '
function kind_of(line,    w) { # "bf16 nt"
    match(line, /[^\/]*\.fkm/)
    split(substr(line, RSTART), w, "_")
    return w[1] " " w[2]
}
function table(title, command) {
    print title
    fflush()
    return command
}
/^CASE [0-9]+ exit / {
    code = $4 + 0
    line = $0
    sub(/^CASE [0-9]+ exit [0-9]+: /, "", line)
    if (line ~ /\/wrong_/) {
        if (code == 1 && text ~ /FAIL/) found++
        else print "NOT FOUND (exit " code "), a wrong reference: " run " " line "\n" text
    } else if (code == 0 && text ~ /PASS/) {
        pass++
        n = split(variants, v, ",")
        for (i = 1; i <= n; i++) uses[v[i]]++
        kind = kind_of(line)
        kinds[kind]++
        fast[kind] += variants !~ /^general(,general)*$/
    } else if (code == 3 && text ~ /UNSUPPORTED/ && line ~ /--variant/) {
        skip++
    } else if (++fail <= 12) {
        print "FAIL (exit " code ") " run " " line "\n" text
    }
    text = variants = ""
    next
}
{
    if (match($0, /variant=[^ ]*/)) variants = substr($0, RSTART + 8, RLENGTH - 8)
    if (length(text) < 600) text = text "    " $0 "\n"
}
END {
    sorted = table("steps that passed, by variant:", "sort -rn")
    for (name in uses) printf "  %5d %s\n", uses[name], name | sorted
    close(sorted)
    sorted = table("cases that passed, by operand type and order (or mask); with a tensor-core step:", "sort")
    for (name in kinds) printf "  %s %5d %5d\n", name, kinds[name], fast[name] | sorted
    close(sorted)
    printf "%d of %d wrong references found\n", found, wrongs
    printf "%d passed, %d failed, %d skipped, %d not run\n", pass, fail, skip, all - pass - fail - skip
    exit fail > 0 || found < wrongs || pass + fail + skip < all
}' "$log" > "$work/summary"
rc=$?
tee -a "$log" < "$work/summary"
exit $rc
