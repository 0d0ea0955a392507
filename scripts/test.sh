#!/usr/bin/env bash
# Everything that can be tested without a GPU, from a fresh checkout: sets up, builds, tests. What
# it had to leave out it says at the end. One stage after the other; every stage runs even if one
# before it failed, and the exit status is that of the whole. About ten minutes on two cores.
#
#   scripts/test.sh               all of it
#   scripts/test.sh release deps  these stages only
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
    cmake --build --preset "$1" --parallel "$jobs" -- --quiet -k 0
}

tests() { # DIRECTORY [ctest arguments]: prints the closing lines, and what failed in full
    local log status skip
    log=$(mktemp)
    ctest --test-dir "$1" --parallel "$jobs" --timeout 600 "${@:2}" >"$log" 2>&1
    status=$?
    sed -E '/^ *Start +[0-9]+: /d; / Passed +[0-9.]+ sec$/d; /^Internal ctest/d' "$log"
    while read -r skip; do skipped+=("$skip ($1)"); done < <(
        sed -nE 's/^[[:space:]]+[0-9]+ - ([^ ]+) \(Skipped\).*/\1/p' "$log")
    rm -f "$log"
    return $status
}

release() { build release -DCMAKE_C_COMPILER=gcc && tests build; }

# Sanitizers; `hard` adds the verifier and a print/parse round trip after every pass. Everything runs
# in one of the two: what runs the whole compiler in `hard`, its parts in `debug`.
debug() { build debug -DCMAKE_C_COMPILER=gcc && tests build-debug --exclude-regex "$whole"; }
hard() { build hard -DCMAKE_C_COMPILER=gcc && tests build-hard --tests-regex "$whole"; }
whole='^(cli|example|program|sem)'

# clang compiles the whole tree here, with -Werror like gcc above; then every fuzz target runs for a
# minute.
fuzz() { build fuzz && tests build-fuzz --tests-regex '^fuzz_'; }

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
