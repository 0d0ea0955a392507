#!/usr/bin/env bash
# Every example compiles, for the chips we know, and evaluates; on a GPU it is checked as well. What
# an `expect` needs of later work is a warning for now (--no-expect); the others hold.
. "$(dirname "$0")/lib.sh"
sizes_of() {
    case $1 in
    batched_transposed) echo "B=3 K=20 M=9 N=14" ;;
    fp8_rowscale) echo "M=7 K=48 N=18" ;;
    gated_residual) echo "M=12 K=40 N=19" ;;
    linear_relu_aux) echo "M=21 K=30 N=13" ;;
    row_col_bias) echo "M=11 K=24 N=26" ;;
    alibi) echo "B=2 S=19 H=3 E=16" ;;
    attention) echo "B=2 S=5 T=9 H=8 E=16" ;;
    cross_entropy) echo "M=7 K=24 V=50" ;;
    dropout_residual_layernorm) echo "M=9 N=70" ;;
    int4_linear) echo "M=5 N=6 K=256" ;;
    layernorm_linear) echo "M=6 K=40 N=11" ;;
    linear_gelu) echo "M=33 N=17 K=50" ;;
    paged_decode) echo "B=3 H=16 E=24 T=48 P=7" ;;
    softmax) echo "M=5 N=130" ;;
    window_softcap) echo "B=1 S=21 H=2 E=16" ;;
    swiglu) echo "T=6 D=20 F=30" ;;
    transformer_block) echo "T=6 D=20 F=18 H=2" ;;
    *) return 1 ;;
    esac
}
expect_holds="batched_transposed fp8_rowscale gated_residual linear_gelu linear_relu_aux row_col_bias"
ptxas=$(command -v ptxas || ls /usr/local/cuda/bin/ptxas 2>/dev/null)
for file in "$root"/examples/*.fk; do
    name=$(basename "$file" .fk)
    list=$(sizes_of "$name") || { holds "$name has sizes in this test" false; continue; }
    args=()
    for s in $list; do args+=(-s "$s"); done
    run 0 "$name" "$fkc" --no-expect --ptxas=none --arch=sm_80,sm_90a "$file" -o "$name.fkm"
    if [[ " $expect_holds " = *" $name "* ]]; then
        run 0 "$name, its report and what it expects" "$fkc" --ptxas="${ptxas:-none}" --emit=report "$file"
        [ -z "$ptxas" ] || { hasnt "$err" "warning"; has "$out" "registers "; }
    else
        run 0 "$name, its report" "$fkc" --no-expect --ptxas=none --emit=report "$file"
    fi
    run 0 "$name, reference" "$fkrun" --reference "${args[@]}" "$name.fkm"
    has "$out" "REFERENCE "
    hasnt "$out" "nan"
    hasnt "$out" "rms 0,"
    if [ -e /dev/nvidia0 ]; then
        run 0 "$name on the GPU" "$fkrun" --check --repeat=2 "${args[@]}" "$name.fkm"
        has "$out" "PASS "
    else
        run 3 "$name without a GPU" "$fkrun" --check "${args[@]}" "$name.fkm"
    fi
done
ends
