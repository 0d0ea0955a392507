#!/usr/bin/env bash
# Everything that can be tested without a GPU, from a fresh checkout: sets up, builds, tests. What
# it had to leave out it says at the end. One stage after the other; every stage runs even if one
# before it failed, and the exit status is that of the whole. About ten minutes on two cores.
#
#   scripts/test.sh               all of it
#   scripts/test.sh release deps  these stages only
#   FKC_FUZZ_SECONDS=600          longer fuzzing (60 each by default)
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
export CI=${CI:-true} # warnings are errors
export CTEST_OUTPUT_ON_FAILURE=1
jobs=$(nproc)
failed=() skipped=()

stage() { # NAME COMMAND...: runs it, remembers how it ended and how long it took
    local name=$1 start=$SECONDS
    shift
    if [ ${#only[@]} -gt 0 ] && [[ " ${only[*]} " != *" $name "* ]]; then return; fi
    echo "==== $name"
    "$@" || failed+=("$name")
    echo "---- $name: $((SECONDS - start)) s"
}

build() { # PRESET [cmake arguments]
    cmake --preset "$1" "${@:2}" >build-log.txt 2>&1 || { cat build-log.txt; rm -f build-log.txt; return 1; }
    rm -f build-log.txt
    cmake --build --preset "$1" --parallel "$jobs" -- --quiet
}

tests() { # DIRECTORY [ctest arguments]: prints the closing lines; failures in full
    local log
    log=$(mktemp)
    ctest --test-dir "$1" --parallel "$jobs" --timeout 300 "${@:2}" >"$log" 2>&1
    local status=$?
    if [ $status -ne 0 ]; then cat "$log"; else sed -n '/tests passed/,$p' "$log"; fi
    while read -r name; do skipped+=("$name ($1)"); done < <(
        sed -nE 's/^ *[0-9]+ - ([^ ]+) \(Skipped\).*/\1/p' "$log")
    rm -f "$log"
    return $status
}

release() { build release -DCMAKE_C_COMPILER=gcc && tests build; }

# Sanitizers, the verifier and the round trip after every pass: everything runs in `hard`, which is
# `debug` and more. `debug` itself is built, and runs what is fast: the unit tests.
hard() { build hard -DCMAKE_C_COMPILER=gcc && tests build-hard --label-exclude slow; }
debug() { build debug -DCMAKE_C_COMPILER=gcc && tests build-debug --label-regex unit; }

# clang compiles the whole tree here, with -Werror like gcc above; then every fuzz target runs.
fuzz() {
    build fuzz || return 1
    local seconds=${FKC_FUZZ_SECONDS:-60} status=0 targets pids=() f
    mapfile -t targets < <(find build-fuzz/tests -type f -perm -u+x -name 'fuzz_*')
    [ ${#targets[@]} -gt 0 ] || { echo "no fuzz target was built"; return 1; }
    local t i=0
    while [ $i -lt ${#targets[@]} ]; do # as many at a time as there are cores
        pids=()
        for t in "${targets[@]:i:jobs}"; do
            f=$(basename "$t")
            mkdir -p "build-fuzz/corpus/$f"
            local seeds=()
            [ -d "tests/fuzz/${f#fuzz_}" ] && seeds=("tests/fuzz/${f#fuzz_}")
            "$t" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
                -artifact_prefix="build-fuzz/$f-" "build-fuzz/corpus/$f" "${seeds[@]}" \
                >"build-fuzz/$f.log" 2>&1 &
            pids+=($!)
        done
        for t in "${targets[@]:i:jobs}"; do
            f=$(basename "$t")
            if wait "${pids[0]}"; then
                echo "$f: $(grep -o 'number_of_executed_units: *[0-9]*' "build-fuzz/$f.log" |
                    tr -s ' ')"
            else
                tail -50 "build-fuzz/$f.log"
                echo "$f: FAILED"
                status=1
            fi
            pids=("${pids[@]:1}")
        done
        i=$((i + jobs))
    done
    return $status
}

only=("$@")
scripts/setup.sh || exit 1
stage deps scripts/deps.sh
stage format scripts/format.sh --check
stage release release
stage fuzz fuzz
stage debug debug
stage hard hard

nvidia() { ls /dev/nvidia0 >/dev/null 2>&1 || skipped+=("everything on a GPU: there is none here"); }
nvidia
if [ ${#skipped[@]} -gt 0 ]; then
    printf 'SKIPPED: %s\n' "${skipped[@]}"
fi
if [ ${#failed[@]} -gt 0 ]; then
    echo "FAILED: ${failed[*]} ($SECONDS s)"
    exit 1
fi
echo "all stages passed ($SECONDS s)"
