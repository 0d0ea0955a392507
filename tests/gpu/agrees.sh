#!/usr/bin/env bash
# On a machine with a GPU, after tests/gpu/pack.sh BUILD agrees: every instruction form that the
# emulated device knows, on the GPU and on the emulated device. Writes to $OUT, or build-gpu:
#
#   emu_agrees.out       what the GPU gave; tests/gpu/emu_agrees.out is one, which CI compares with
#   differences.txt      where the two do not agree, and how far approximations are from their bounds
#
#   past.txt             of the first, boxes that are stored wholly past a tensor's end
#
# A kernel that ends the GPU's context, or does not end itself, is one test that failed: the run goes
# on behind it in a new process, and the comparison leaves it out.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=${OUT:-build-gpu} here=build-gpu
export FK_EMU=$here/libfkemu.so
rm -f "$out/emu_agrees.out"
start=$SECONDS
run() { # OPTIONS
    for _ in $(seq 200); do
        timeout 400 $here/emu_agrees --device=cuda --write="$out/emu_agrees.out" "$@"
        [ $? -eq 3 ] || break
    done
}
run --except='*past-the-end*'
run --only='*past-the-end*'
grep past-the-end "$out/emu_agrees.out" > "$out/past.txt"
echo "on the GPU: $((SECONDS - start)) s"
$here/emu_agrees --device=emu --compare="$out/emu_agrees.out" | tail -n 1
timeout 300 $here/emu_agrees --device=emu --with=cuda --skip-failed="$out/emu_agrees.out" > "$out/differences.txt" 2>&1
tail -n 1 "$out/differences.txt"
grep -c failed "$out/emu_agrees.out" | sed 's/^/tests that failed on the GPU: /'
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
