#!/usr/bin/env bash
# The harness itself, with no GPU: every form has a test, ptxas takes every kernel, and a stored
# output that is another is found.
set -u
agrees=${AGREES:?} dir=$(mktemp -d) fail=0
trap 'rm -r "$dir"' EXIT
wrong() { echo "FAIL: $*"; fail=1; }

"$agrees" --list > "$dir/list" || wrong "some form has no test"
[ "$(sort "$dir/list" | uniq -d | wc -l)" -eq 0 ] || wrong "two tests have one name"
[ "$(cut -d' ' -f1,2 "$dir/list" | sort -u | wc -l)" -ge 250 ] || wrong "fewer than 250 forms"

# What was stored a moment ago agrees; with a digit changed it does not, and the test is named.
"$agrees" --only='ex2*' --write="$dir/out" > /dev/null || wrong "it does not run"
"$agrees" --only='add.?32 *' --write="$dir/out" > /dev/null || wrong "it does not run"
"$agrees" --only='ex2*' --compare="$dir/out" > "$dir/log" || { wrong "its own outputs differ"; cat "$dir/log"; }
changed() { # PATTERN SED-EXPRESSION NAME
    sed "$2" "$dir/out" > "$dir/changed"
    cmp -s "$dir/out" "$dir/changed" && wrong "nothing changed by $2"
    "$agrees" --only="$1" --compare="$dir/changed" > "$dir/log" && wrong "not found: $2"
    grep -qF "$3: " "$dir/log" || { wrong "$3 is not named"; cat "$dir/log"; }
}
changed 'add.?32 *' '/^add\.u32 /s/#./#x/' 'add.u32 Rrr'
changed 'add.?32 *' '/^add\.f32 /s/.$/x/' 'add.f32 Rrr'
changed 'ex2*' '/^ex2.approx.f32 /s/=......../=00000040/' 'ex2.approx.f32 Rr'
changed 'ex2*' '/^ex2.approx.f16 /s/\t[0-9a-f]*\t/\t0\t/' 'ex2.approx.f16 Hh'

# Left out by name
"$agrees" --only='ex2*' --except='*f16*' --write="$dir/some" > /dev/null || wrong "it does not run"
grep -q '^ex2.approx.f32 ' "$dir/some" || wrong "--except leaves out more than it says"
cut -f1 "$dir/some" | grep -q f16 && wrong "--except leaves nothing out"

# What is not stored is said, and is no fault unless too little is.
grep -v '^ex2.approx.f16 ' "$dir/out" > "$dir/fewer"
stored=$(grep -c '^ex2' "$dir/fewer")
printf 'ex2.approx.f16 Hh\t00000000\tfailed\n' >> "$dir/fewer"
fewer() { # LEAST STATUS PATTERN
    "$agrees" --only='ex2*' --compare="$dir/fewer" --least="$1" > "$dir/log"
    local status=$?
    [ $status -eq "$2" ] || { wrong "status $status with --least=$1"; cat "$dir/log"; }
    grep -q "$3" "$dir/log" || { wrong "not said: $3"; cat "$dir/log"; }
}
fewer $stored 0 '^1 tests have no stored output yet'
fewer $((stored + 1)) 1 "^only $stored tests have stored outputs"
"$agrees" --only='ex2*' --compare="$dir/none" > /dev/null 2>&1
[ $? -eq 3 ] || wrong "a file that is not there is not missed"

# ptxas, where there is one
ptxas=$(command -v ptxas || ls "${CUDA_HOME:-/usr/local/cuda}/bin/ptxas" /usr/local/cuda/bin/ptxas 2> /dev/null | head -n 1)
if [ -n "$ptxas" ]; then
    "$agrees" --ptx="$dir/all.ptx" || wrong "no PTX"
    "$ptxas" -arch=sm_90a "$dir/all.ptx" -o "$dir/all.cubin" > "$dir/log" 2>&1 ||
        { wrong "ptxas refuses a kernel"; head -n 20 "$dir/log"; }
else
    echo "no ptxas: the kernels were not assembled"
fi
[ $fail -eq 0 ] && echo "all as it should be"
exit $fail
