#!/usr/bin/env bash
# ptxas absent, refusing, crashing: a clear message each, and PTX whenever it can be had.
# Mostly for a chip that gets the general kernel alone, which is compiled in no time; tests/compiler
# has the choice between schedules.
. "$(dirname "$0")/lib.sh"
fake() { # NAME LINES...: a ptxas of our own
    local path=$work/$1
    shift
    { echo '#!/bin/sh'; printf '%s\n' "$@"; } >"$path"
    chmod +x "$path"
}

# No ptxas anywhere. An installation in the usual place is found whatever PATH says, so the test of
# its absence runs only where there is none.
if [ ! -x /usr/local/cuda/bin/ptxas ]; then
    run 0 "absent" env PATH=/nonexistent "$fkc" --arch=sm_80 model.fk -o m.fkm
    has "$err" "note: no ptxas found: the module holds PTX alone"
    holds "the module is there" test -s m.fkm
    run 3 "absent, but machine code was asked for" env PATH=/nonexistent "$fkc" --arch=sm_80 --emit=cubin model.fk -o m
    has "$err" "no ptxas found, and machine code was asked for"
fi
run 0 "PTX needs none" env PATH=/nonexistent "$fkc" --arch=sm_80 --emit=ptx model.fk
has "$out" ".visible .entry"
run 0 "--ptxas=none" "$fkc" --arch=sm_80 --ptxas=none model.fk -o m.fkm
holds "the module is there" test -s m.fkm
run 3 "not where it should be" "$fkc" --arch=sm_80 --ptxas=/nonexistent/ptxas model.fk -o n.fkm
has "$err" "no ptxas at '/nonexistent/ptxas'"
holds "nothing was published" test ! -e n.fkm

fake refusing 'echo "ptxas fatal   : Unsupported .version 9.9; current version is 8.4" >&2' 'exit 255'
run 3 "refusing" "$fkc" --arch=sm_80 --ptxas="$work/refusing" model.fk -o n.fkm
has "$err" "Unsupported .version 9.9"
has "$err" "--ptxas=PATH names another, --ptxas=none makes PTX alone"
fake crashing 'kill -SEGV $$'
run 3 "crashing" "$fkc" --arch=sm_80 --ptxas="$work/crashing" model.fk -o n.fkm
has "$err" "$work/crashing"
has "$err" "signal"
fake silent 'exit 0'
run 3 "writing nothing" "$fkc" --arch=sm_80 --ptxas="$work/silent" model.fk -o n.fkm
has "$err" "$work/silent"
holds "nothing was published" test ! -e n.fkm
run 3 "named by FKC_PTXAS" env FKC_PTXAS="$work/refusing" "$fkc" --arch=sm_80 model.fk -o n.fkm
has "$err" "Unsupported .version 9.9"

# What it said of the general kernel is kept in the module.
fake telling 'for last; do :; done; cp "$3" "$last"' \
    'echo "    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads" >&2' \
    'echo "ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem" >&2'
run 0 "what it says" "$fkc" --ptxas="$work/telling" --arch=sm_80 model.fk -o told.fkm
run 0 "is kept" "$fkrun" --list told.fkm
has "$out" "variant=general predicted=? sm_80: registers=40 shared=1024 stack=16 spilt=20 code="

if real=$("$fkc" -v model.fk -o real.fkm 2>&1 | sed -n 's/^fkc: assembling with //p') && [ -n "$real" ]; then
    run 0 "machine code" "$fkc" --arch=sm_80 --emit=cubin model.fk -o one.cubin
    for one in one.cubin*; do # one, or one a variant
        holds "an ELF file" test "$(head -c 4 "$one" | tail -c 3)" = ELF
    done
    run 0 "for two chips" "$fkc" --arch=sm_80,sm_90a --emit=cubin model.fk -o two
    holds "the general one for both" test "$(find . -name 'two.*_0.sm_*' | wc -l)" = 2
    holds "those of sm_90a for it alone" test -z "$(find . -name 'two.*_coop_*.sm_80')"
    holds "those of sm_80 for it alone" test -z "$(find . -name 'two.*_mma_*.sm_90a')"
    holds "some for each" test -n "$(find . -name 'two.*_mma_*.sm_80')" -a -n "$(find . -name 'two.*_coop_*.sm_90a')"
    run 0 "same bytes" "$fkc" model.fk -o again.fkm
    holds "with machine code too" cmp -s real.fkm again.fkm
    run 0 "report" "$fkc" --arch=sm_80 --emit=report model.fk
    has "$out" "registers "
else
    echo "no ptxas: the checks of machine code were left out"
fi
ends
