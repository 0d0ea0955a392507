#!/usr/bin/env bash
# 32 compilers at once onto 8 files, some of them killed: every file that is there is whole.
# shellcheck disable=SC2086
. "$(dirname "$0")/lib.sh"
for k in $(seq 8); do
    sed "s/+ b\[n\]/+ $k * b[n]/" model.fk >p$k.fk
    run 0 "alone" "$fkc" $quick p$k.fk -o want$k.fkm
done
for round in 1 2; do
    pids=()
    for i in $(seq 32); do
        k=$((i % 8 + 1))
        "$fkc" $quick p$k.fk -o got$k.fkm 2>/dev/null &
        pids+=($!)
    done
    [ $round = 2 ] && sleep 0.01 && kill -9 "${pids[@]:26}" 2>/dev/null
    bad=0
    for i in "${!pids[@]}"; do
        wait "${pids[$i]}" 2>/dev/null || { [ "$round" = 2 ] && [ "$i" -ge 26 ]; } ||
            bad=$((bad + 1))
    done
    holds "round $round: no failure" test $bad = 0
    for k in $(seq 8); do holds "round $round: p$k is whole" cmp -s want$k.fkm got$k.fkm; done
done
ends
