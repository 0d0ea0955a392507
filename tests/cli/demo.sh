#!/usr/bin/env bash
# The demo, on what is built already: with a GPU, without one, and with nothing to run on.
. "$(dirname "$0")/lib.sh"
demo() { "${@:2}" bash "$root"/scripts/demo.sh --built "$1"; }
build=$(dirname "$fkc")

# The driver shows no GPU where this variable is empty.
run 0 "no GPU" demo "$build" env -u FK_EMU CUDA_VISIBLE_DEVICES=
has "$out" "    no GPU: "
has "$out" "==> on the emulated device: "
has "$out" "PASS linear_gelu M=200 K=304 N=120 "
hasnt "$out" "on the GPU"
has "$out" "fn linear_gelu: 1 kernel for sm_90a"
has "$out" ".visible .entry"
run 3 "nothing to run on" demo "$build" env FK_EMU="$work/none.so" CUDA_VISIBLE_DEVICES=
has "$err" "where FK_EMU points"
hasnt "$out" "PASS"
if [ -e /dev/nvidia0 ]; then
    run 0 "a GPU" demo "$build" env
    has "$out" "PASS linear_gelu"
    has "$out" "    on the GPU"
    hasnt "$out" "emulated"
fi
ends
