#!/usr/bin/env bash
# The whole text of two reports, for a chip of which there is the general kernel alone. UPDATE=1 rewrites them.
. "$(dirname "$0")/lib.sh"
cp "$root/examples/layernorm_linear.fk" two.fk
golden() { # FILE
    # Prices and launch shapes are the model's business, and tested where it is.
    sed -E 's/[0-9.e+-]+ us/# us/g; s/[0-9]+ threads, grid .*/# threads, grid #/' "$out" >got
    if [ "${UPDATE:-}" = 1 ]; then cp got "$here/$1"; fi
    checks=$((checks + 1))
    diff -u "$here/$1" got || wrong "$1 differs; UPDATE=1 rewrites it"
}
run 0 "one kernel" "$fkc" --ptxas=none --no-expect --arch=sm_80 --emit=report model.fk
golden report_one.txt
run 0 "several, sizes bound" "$fkc" --ptxas=none --no-expect --bind M=64 --bind N=32 \
    --bind K=128 --arch=sm_80 --emit=report two.fk
golden report_bound.txt
# With free sizes nothing is longer than one can read: formulas that are give numbers instead.
run 0 "sizes free, fast kernels" "$fkc" --ptxas=none --no-expect --emit=report model.fk
has "$out" "needs x, w, y aligned to 16 bytes; M, K, N >= 1; M, K, N <= 2147483647; stride 0 of x, w, y a multiple of 16 bytes"
has "$out" "; stride 1 of x, w, y one element; stride 0 of b one element"
has "$out" " longer condition"
holds "predicted at sizes" grep -qE '^      predicted [0-9.]+ us \(M = K = N = 512\), [0-9.]+ us \(2048\), [0-9.]+ us \(8192\); --bind sets sizes$' "$out"
holds "a grid at sizes" grep -qE ', grid [0-9]+ \(M = K = N = 512\), [0-9]+ \(2048\)' "$out"
holds "no line over 320" test -z "$(grep -E '.{321}' "$out")"
ends
