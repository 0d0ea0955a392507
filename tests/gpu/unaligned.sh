#!/usr/bin/env bash
# On a machine with a GPU, after tests/gpu/pack.sh: products whose tensors TMA cannot take. Every
# fn of gemm.fk, orders.fk and fp8.fk, and some of sums.fk, with odd sizes, addresses and pitches, on the variants made for that,
# forced, and on the one that the runtime takes; products with vectors likewise; then views that start an element late, one tensor
# at a time (CASES A21), and rows that are no multiple of 16 bytes (A19).
#
# FKRUN names another fkrun, and --dry prints the cases. The last line is "N passed, N failed".
set -u
cd "$(dirname "$0")/../.." && bash tests/gpu/unpack.sh || exit 1
run=${FKRUN:-build-gpu/fkrun} modules=build-gpu/modules cases=$(mktemp)
trap 'rm -f "$cases"' EXIT

add() { # MODULE FN VARIANT "M N K" OPTIONS...
    local module=$1 fn=$2 variant=$3
    read -r m n k <<< "$4"
    shift 4
    [ "$variant" = auto ] || set -- --variant "$variant" "$@"
    [ $module = gemm_vectors ] || set -- -s M="$m" "$@"
    [[ $fn =~ batch|last|eights ]] && set -- -s B=3 "$@"
    [[ $fn =~ heads|inner|lone ]] && set -- -s B=2 "$@"
    [ "$fn" = heads ] && set -- -s H=8 "$@"
    echo "--check --check-seconds 2 --repeat 3 --fn $fn -s N=$n -s K=$k $* $modules/$module.fkm" >> "$cases"
}

sizes=("1 1 1" "7 5 3" "64 64 63" "65 129 12" "127 255 65" "129 257 100" "300 520 511" "1000 136 1001")
layouts=("" "--offset %s=2 --offset w=14" "--pad %s=1 --pad w=3" "--offset %s=6 --pad w=5 --offset y=2" "--pad y=1")
at=0
for fn in bias_gelu rowcol two gated nt nn tt tn out shifted half odd heads inner lone; do
    module=gemm_orders first=a
    [[ $fn =~ bias_gelu|rowcol|two|gated ]] && module=gemm_cases first=x
    for variant in plain_128x256 plain_64x64 auto; do
        for mnk in "${sizes[@]}"; do
            # shellcheck disable=SC2059,SC2086
            add $module $fn $variant "$mnk" $(printf "${layouts[at++ % ${#layouts[@]}]}" $first)
        done
    done
done
for words in "gated 128x128 64x32 w h" "across 128x128 64x64 w h" "down 128x128 64x64 w h" "rows 128x128 64x32 w h" \
    "reduced 128x128 64x32 w h" "three 128x64 64x32 q a" "four 128x64 64x64 p y"; do
    read -r fn wide thin w y <<< "$words"
    for variant in plain_$wide plain_$thin auto; do
        for mnk in "${sizes[@]}"; do
            # shellcheck disable=SC2059,SC2086
            add gemm_sums $fn $variant "$mnk" $(printf "${layouts[at++ % ${#layouts[@]}]}" x | sed "s/w=/$w=/; s/y=/$y=/")
        done
    done
done
layouts+=("--offset %s=1 --offset w=3" "--pad w=1 --offset %s=13" "--pad %s=2 --offset w=8")
for fn in plain rows inside chain heads; do
    for variant in plain_128x128 auto; do
        for mnk in "${sizes[@]}"; do
            # shellcheck disable=SC2059,SC2086
            add fp8_cases $fn $variant "$mnk" $(printf "${layouts[at++ % ${#layouts[@]}]}" x)
        done
    done
    for variant in plain_128x256 auto; do
        for mnk in "${sizes[@]}"; do
            # shellcheck disable=SC2059,SC2086
            add fp8_cases_fast $fn $variant "$mnk" --fast-accum $(printf "${layouts[at++ % ${#layouts[@]}]}" x)
        done
    done
done
for fn in eight eights linear across two batch last; do
    [[ $fn == eight* ]] || layouts=("${layouts[@]:0:5}") # 16-bit elements lie at even addresses
    for variant in plain_64x64 auto; do
        for mnk in "${sizes[@]}"; do
            # shellcheck disable=SC2059,SC2086
            add gemm_vectors $fn $variant "$mnk" $(printf "${layouts[at++ % ${#layouts[@]}]}" x)
        done
    done
done
for late in x=2 w=2 b=2 y=2 x=4 w=8; do
    add gemm_cases bias_gelu auto "512 512 64" --offset $late
    add gemm_cases bias_gelu auto "512 1000 511" --offset $late
done
for mnk in "256 256 511" "256 256 12" "256 256 100" "4095 4097 1024" "1024 1024 4095" "1025 1023 4097"; do
    add gemm_orders nt auto "$mnk"
    add gemm_orders nn auto "$mnk"
    add gemm_orders tn auto "$mnk"
done
[ "${1:-}" = --dry ] && { cat "$cases"; exit; }

out=$($run --cases="$cases" 2>&1)
grep '^CASE' <<< "$out" | grep -v 'exit 0' | head -n 12
pass=$(grep -c '^CASE.* exit 0:' <<< "$out")
fail=$(($(wc -l < "$cases") - pass))
echo "$pass passed, $fail failed"
[ $fail -eq 0 ]
