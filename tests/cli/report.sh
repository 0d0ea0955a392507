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
# What refused: a tensor-core kernel, and a loop of two reductions.
cat >refused.fk <<'FK'
fn counted(q: bf16[S, 64], k: bf16[T, 64], v: bf16[T, 64], keep: bool[S, T]) -> (o: f32[S, 64])
{
    s[i, j] = sum[e] q[i, e] * k[j, e]
    m[i] = max[j where keep[i, j]] s[i, j]
    o[i, d] = sum[j where keep[i, j]] exp(s[i, j] - m[i]) * v[j, d]
}
fn apart(x: f32[M, N]) -> (y: f32[M])
{
    m[i] = max[j] x[i, j]
    y[i] = sum[j] sigmoid(x[i, j] - m[i])
}
FK
run 0 "what refused" "$fkc" --ptxas=none --emit=report refused.fk
has "$out" "sizes and strides; tensor cores: a masked sum of products has no sum over rows beside it"
has "$out" "a loop of its own: sigmoid does not separate"
run 0 "strict" "$fkc" --ptxas=none --strict --emit=report refused.fk
has "$out" "sizes and strides; tensor cores: --strict"
# What says which blocks of keys a tile works on: conditions that their least and greatest decide, bounds.
run 0 "a document mask" "$fkc" --ptxas=none --no-expect --bind E=64 --emit=report "$root/tests/programs/08_attn_document.fk"
has "$out" "      picks blocks of j by least and greatest of id[b, i] == id[b, j]"
run 0 "documents by their starts" "$fkc" --ptxas=none --no-expect --bind E=64 --emit=report "$root/tests/bench/attention_starts.fk"
has "$out" "      picks blocks of j by least and greatest of its bounds, max(start[b, i], 0) and min(S, i + 1)"
run 0 "affine bounds" "$fkc" --ptxas=none --no-expect --bind E=64 --emit=report "$root/tests/bench/attention.fk"
holds "nothing to pick by" test -z "$(grep "picks blocks" "$out")"
# A matrix that goes between kernels in f32, and the cure; the row's statistic is no matter.
cat >crossing.fk <<'FK'
fn two(x: bf16[M, K], w: bf16[N, K], v: bf16[D, N]) -> (y: bf16[M, D])
{
    h[m, n] = sum[k] x[m, k] * w[n, k]
    r[m, n]: bf16 = h[m, n] * rsqrt(mean[j] h[m, j]^2)
    y[m, d] = sum[n] r[m, n] * v[d, n]
}
FK
run 0 "a temporary in f32" "$fkc" --ptxas=none --emit=report crossing.fk
has "$err" "two: h goes from step 0 to step 1 in f32, 4*M*N bytes written and read; 'h[m, n]: bf16 = ..' would round it to half of that"
hasnt "$err" "two: r goes"
sed -i 's/h\[m, n\] =/h[m, n]: bf16 =/' crossing.fk
run 0 "the cure" "$fkc" --ptxas=none --emit=report crossing.fk
hasnt "$err" "in f32"
sed -i 's/bf16/f32/g; s/: f32 =/ =/' crossing.fk
run 0 "all is f32" "$fkc" --ptxas=none --emit=report crossing.fk
hasnt "$err" "in f32"
# A whole block, its sizes known or not: eight kernels, each with a fast one.
for sizes in "" "--bind=T=4096 --bind=D=4096 --bind=H=32 --bind=F=14336"; do
    # shellcheck disable=SC2086
    run 0 "a transformer block $sizes" "$fkc" --ptxas=none --emit=report $sizes "$root/examples/transformer_block.fk"
    has "$out" "fn transformer_block: 7 kernels for sm_90a"
    hasnt "$out" "contract  stored" # of v, which is stored rounded
    hasnt "$out" "the only variant"
done
ends
