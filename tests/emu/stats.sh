#!/usr/bin/env bash
# What FK_EMU_STATS counts of a linear layer is what its tiles predict (ctest: emu_stats): of every
# tensor each byte once from memory; x once for each column of tiles and w for each row, or half as
# often for pairs of CTAs; products for whole tiles; and no conflicts of banks when stmatrix stores.
set -u
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0 checks=0
"$build/fkc" --ptxas=none examples/linear_gelu.fk -o "$work/m.fkm" || exit 1

line() { # TEXT: stands in the statistics
    checks=$((checks + 1))
    grep -qxF -e "$1" "$work/said" && return
    bad=$((bad + 1))
    echo "WRONG: $variant M=$m N=$n K=$k: no '$1' in"
    cat "$work/said"
}

run() { # VARIANT M N K: X Y, how often x and w are read
    variant=$1 m=$2 n=$3 k=$4
    FK_EMU_STATS=1 "$build/fkrun" --device=emu --check -s M="$m" -s N="$n" -s K="$k" \
        --variant="$variant" "$work/m.fkm" >"$work/out" 2>"$work/said" || { cat "$work/out" "$work/said"; exit 1; }
    local x=$((2 * m * k)) w=$((2 * n * k)) y=$((2 * m * n))
    line "emu: read of=\"input 'x'\" bytes=$x total=$(($5 * x)) sectors=$(($5 * x / 32))"
    line "emu: read of=\"input 'w'\" bytes=$w total=$(($6 * w)) sectors=$(($6 * w / 32))"
    grep -qF "emu: read of=\"input 'b'\" bytes=$((2 * n)) " "$work/said" || line "b, read once"
    if [ "$7" = stmatrix ]; then
        line "emu: written of=\"output 'y'\" bytes=$y total=$y sectors=$((y / 32))"
        line "emu: shared op=stmatrix warps=$((y / 512)) wavefronts=$((y / 128)) extra=0"
        ! grep -q '^emu: conflicts' "$work/said" || line "no conflicts"
    fi
    line "emu: tensor op=wgmma instructions=$8 flops=$9"
}

flops=$((2 * 256 * 256 * 256))
run pingpong_128x128 256 256 256 2 2 stmatrix 128 $flops
run coop_128x256_2x1 256 256 256 1 1 stmatrix 64 $flops
run coop_256x128_1x2 256 256 256 1 1 stmatrix 128 $flops
run swap_64x16 256 256 256 4 16 - 1024 $flops
# Ragged: a tile that sticks out multiplies zeros, which nobody reads; so does a step of K.
run pingpong_128x128 200 120 304 1 2 - 80 $((2 * 256 * 128 * 320))
echo "$checks checks, $bad wrong"
[ $bad -eq 0 ]
