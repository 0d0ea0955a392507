#!/usr/bin/env bash
# Everything that can be tested without a GPU, from a fresh checkout: sets up, builds, tests. What
# it had to leave out it says at the end. One stage after the other; every stage runs even if one
# before it failed, and the exit status is that of the whole. Some ten minutes on two cores.
#
#   scripts/test.sh               all of it
#   scripts/test.sh release deps  these stages only
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
export CI=${CI:-true} # warnings are errors
export CTEST_OUTPUT_ON_FAILURE=1
# What LLVM frees need not be kept for long: fresh pages would take as much time as the work.
export ASAN_OPTIONS=${ASAN_OPTIONS:-quarantine_size_mb=8}
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

# Sanitizers, with the verifier and a print/parse round trip after every pass: every test that can run
# so. (The preset `debug` is the same without the latter, for work at hand.)
hard() { build hard -DCMAKE_C_COMPILER=gcc && tests build-hard; }

# clang compiles the whole tree here, with -Werror like gcc above, and links two fuzz targets; each runs
# for a minute.
fuzz() {
    cmake --preset fuzz >build-log.txt 2>&1 || { cat build-log.txt; rm -f build-log.txt; return 1; }
    rm -f build-log.txt
    ninja -C build-fuzz -t targets all | sed -nE 's/^([^ ]+\.o): .*/\1/p' |
        xargs ninja -C build-fuzz --quiet -k 0 fuzz_parse fuzz_fkm_load && tests build-fuzz --tests-regex '^fuzz_'
}

only=("$@")
scripts/setup.sh || exit 1
stage deps scripts/deps.sh
stage format scripts/format.sh --check
stage release release
stage fuzz fuzz
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
