#!/usr/bin/env bash
# Gathers what a machine with a GPU needs into build-gpu/: programs, and every module compiled here
# (that machine needs no LLVM), the modules in archives, which tests/gpu/unpack.sh unpacks. Then, there:
# bash tests/gpu/run.sh
#
#     tests/gpu/pack.sh [BUILD [FOLDER...]]    default: build, and all there is
#     tests/gpu/pack.sh build tests/bench      what tests/bench/gemm.py needs, in seconds
#     tests/gpu/pack.sh build attention        what tests/bench/attention.py and util.sh need
#     PACK_ONLY=PATTERN tests/gpu/pack.sh ...  of those files and what is bound, what matches (grep -E)
#     tests/gpu/pack.sh build grid attn        what tests/gpu/grid.sh and attn.sh need
#     tests/gpu/pack.sh build agrees           what tests/gpu/agrees.sh needs
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build} out=build-gpu
shift
folders=" ${*:-tests/programs tests/cases tests/bench tests/gpu examples attention grid attn agrees} "
rm -rf $out && mkdir -p $out/modules || exit 1
cp $build/fkrun $out/ || exit 1
for t in gpu_api gpu_runtime_driver gpu_by_hand; do cp "$(find $build -name $t -type f | head -n 1)" $out/ || exit 1; done
cp -L $build/libfk.so $out/libfk.so
strip $out/fkrun $out/gpu_api
cp "$(find /usr/lib -name libcmocka.so.0 | head -n 1)" $out/
fail=0 queue=$out/queue
: > $queue
compile() { # FILE NAME OPTIONS...: later
    [[ $folders == *" $(dirname "$1") "* ]] && echo "$*" >> $queue
}
compile_now() {
    local file=$1 name=$2
    shift 2
    "$build/fkc" --no-expect "$@" -o "$out/modules/$name.fkm" "$file" 2> "$out/modules/$name.log" ||
        { echo "does not compile: $file"; cat "$out/modules/$name.log"; exit 1; }
}
export build out
export -f compile_now
for f in tests/programs/*.fk tests/cases/*.fk tests/bench/*.fk examples/*.fk; do
    head -n 1 "$f" | grep -q '^# refused' && continue
    [[ $f = tests/bench/@(attention|decode|block)* ]] && continue # bound, below
    compile "$f" "$(basename "$f" .fk)"
done
compile tests/gpu/gemm.fk gemm_cases
compile tests/bench/gemm_fp8.fk gemm_fp8_fast --fast-accum
compile tests/gpu/orders.fk gemm_orders
compile tests/gpu/gemm.fk gemm_cases_sm80 --arch=sm_80
compile tests/gpu/orders.fk gemm_orders_sm80 --arch=sm_80
compile tests/bench/gemm.fk gemm_sm80 --arch=sm_80
compile tests/bench/mm_orders.fk mm_orders_sm80 --arch=sm_80
compile tests/gpu/fp8.fk fp8_cases
compile tests/gpu/fp8.fk fp8_cases_fast --fast-accum
compile tests/gpu/vectors.fk gemm_vectors
compile tests/gpu/vectors.fk gemm_vectors_fast --fast-accum
compile tests/gpu/made.fk gemm_made
compile tests/gpu/matrices.fk gemm_matrices
compile tests/gpu/reduce.fk gemm_reduce
compile tests/gpu/split.fk online_split --bind E=128
compile tests/gpu/states.fk gemm_states
compile tests/gpu/sums.fk gemm_sums
compile tests/gpu/strips.fk gemm_strips
compile tests/cases/a13_grid.fk jit_grid --ptxas=none
compile tests/cases/a59_dropout.fk nofuse_dropout --no-fuse
if [[ $folders == *" attention "* ]]; then
    python3 tests/bench/attention_suites.py | while read -r name file binds; do echo "$file $name${binds:+ $binds}" >> $queue; done
fi
if [[ $folders == *" tests/bench "* ]]; then
    python3 tests/bench/block_suites.py | while read -r name file binds; do echo "$file $name $binds" >> $queue; done
fi
[ -z "${PACK_ONLY:-}" ] || { grep -E -e "$PACK_ONLY" $queue > $queue.some; mv $queue.some $queue; }
xargs -r -a $queue -P "$(nproc)" -L 1 bash -c 'compile_now "$@"' compile_now || fail=1
$build/fkc --emit=ptx tests/cases/a13_grid.fk -o $out/grid.ptx || fail=1
rm -f $out/modules/*.log $queue
ls $out/modules | wc -l
tar -I 'xz -1 -T0' -cf $out/modules.txz -C $out modules && rm -r $out/modules || fail=1
for g in grid attn; do
    [[ $folders != *" $g "* ]] || tests/gpu/grid_pack.sh "$build" $g || fail=1
done
if [[ $folders == *" agrees "* ]]; then
    cp "$(find $build -name emu_agrees -type f | head -n 1)" $build/libfkemu.so $out/ || fail=1
fi
du -sh $out
exit $fail
