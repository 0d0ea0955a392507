#!/usr/bin/env bash
# On a machine with a GPU, after tests/gpu/pack.sh: times the general kernel's bars. One line a fn.
set -u
cd "$(dirname "$0")/../.." && bash tests/gpu/unpack.sh || exit 1
run=build-gpu/fkrun mods=build-gpu/modules
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
date -u +%F
bench() {
    local module=$1 fn=$2
    shift 2
    printf '%s ' "$fn"
    $run --bench --fn "$fn" "$@" $mods/$module.fkm 2>&1 | tail -n 1
}
for fn in pointwise pointwise16 transpose rowsum rowsum16 colsum total rowsoftmax rownorm; do
    bench general $fn --size M=16384 --size N=4096
done
for fn in gemm_nt gemm_nn gemm_tn gemm_bf16; do
    bench general_gemm $fn --size M=2048 --size N=2048 --size K=2048
done
bench general_gemm gemv --size N=16384 --size K=4096
