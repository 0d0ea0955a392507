#!/usr/bin/env bash
# Makes build-gpu/grid.txz or build-gpu/attn.txz: the modules and cases of a grid (grid.py or attn.py here),
# for tests/gpu/grid.sh or attn.sh on a machine with a GPU. Takes a few minutes on two cores. tests/gpu/pack.sh
# calls it. A first line "# fkc: OPTIONS" of a program is for the compiler.
#
#     tests/gpu/grid_pack.sh [BUILD [grid|attn]]            default: build, grid
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build} grid=${2:-grid}
dir=build-gpu/$grid
export build
rm -rf $dir $dir.txz && mkdir -p $dir || exit 1
python3 tests/gpu/$grid.py programs $dir || exit 1
compile() { # FILE OPTIONS...
    # shellcheck disable=SC2046
    "$build/fkc" --no-expect $(sed -n '1s/^# fkc: //p' "$1") "$@" -o "${1%.fk}.fkm" 2> "${1%.fk}.log" ||
        { echo "does not compile: $1"; cat "${1%.fk}.log"; exit 1; }
}
export -f compile
find $dir -name '*.fk' ! -name 'other_*' | sort | xargs -P "$(nproc)" -I{} bash -c 'compile {}' || exit 1
for f in "$dir"/other_*.fk; do # of which only the reference is wanted
    wrong=${f/other_/wrong_}
    compile "$f" --ptxas=none --arch=sm_80
    "$(find "$build" -name gpu_graft -type f | head -n 1)" "${wrong%.fk}.fkm" "${f%.fk}.fkm" $dir/grafted || exit 1
    mv $dir/grafted "${wrong%.fk}.fkm" && rm "${f%.fk}.fkm" || exit 1
done
python3 tests/gpu/$grid.py cases $dir "$build/fkrun" $dir || exit 1
tar -I 'xz -1 -T0' -cf $dir.txz -C build-gpu --exclude='*.fk' --exclude='*.log' $grid || exit 1
rm -r $dir
du -h $dir.txz
