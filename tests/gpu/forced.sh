#!/usr/bin/env bash
# On a machine with a GPU, after tests/gpu/pack.sh: every variant that a module of gemm.fk, orders.fk (for sm_90a
# and for sm_80), fp8.fk and vectors.fk (as they are, and with --fast-accum), made.fk, matrices.fk, reduce.fk, states.fk, sums.fk, strips.fk, split.fk has, forced, at sizes that hang over
# tiles, stages and slabs, some of them each, deep ones where k is split; matrices also at an offset,
# padded, or of a layout that TMA refuses. Outputs are compared with the reference and between three
# launches, bit for bit. What a variant does not take is skipped;
# every variant of a fn must have run at some sizes (not asked of a sample).
#
#     tests/gpu/forced.sh [JOBS [PATTERN [EVERY [SECONDS]]]]     default: 12 at a time; with PATTERN only
#                                              cases that match it, of these each EVERYth (1), for SECONDS (600)
#     tests/gpu/forced.sh --dry                shows the cases
#
# Writes build-gpu/forced.log. The last line is "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.." && bash tests/gpu/unpack.sh || exit 1
run=${FKRUN:-build-gpu/fkrun} mods=build-gpu/modules
end=$(($(date +%s) + ${4:-600}))
export run end
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

list() { # MODULE FN: its variants
    $run --list --fn="$2" "$mods/$1.fkm" | sed -n 's/.*variant=\([^ ]*\) .*/\1/p' | grep -v general
}

one() { # MODULE FN VARIANT "M N K" OPTIONS...
    local module=$1 fn=$2 variant=$3 m n k
    read -r m n k <<< "$4"
    shift 4
    [ "$variant" = auto ] || set -- --variant="$variant" "$@"
    [[ $absent == *M* ]] || set -- -s M="$m" "$@"
    [[ $absent == *N* ]] || set -- -s N="$n" "$@"
    [[ $absent == *K* ]] || set -- -s K="$k" "$@"
    echo "--check --check-seconds=3 --repeat=3 --fn=$fn $* $mods/$module.fkm"
}

turn=0 absent=
all() { # MODULE FN OPTIONS...: each variant at four of $sizes in turn, and two of $deep if it splits k
    local module=$1 fn=$2 variant i
    shift 2
    for variant in $(list "$module" "$fn") auto; do
        for i in 0 1 2 3; do
            one "$module" "$fn" "$variant" "${sizes[(turn + i * 2) % ${#sizes[@]}]}" "$@"
        done
        turn=$((turn + 1))
        [[ $variant == *_split ]] || continue
        [ ${#deep[@]} -eq 0 ] || for i in 0 1; do one "$module" "$fn" "$variant" "${deep[(turn + i) % ${#deep[@]}]}" "$@"; done
    done
}

batch() { # FN: its batch sizes
    case $1 in
    heads) echo -s B=3 -s H=8 ;;
    inner | lone) echo -s B=3 ;;
    batch | last | norm | eights) echo -s B=8 ;;
    scores | values) echo -s B=2 -s H=8 ;;
    esac
}

reduced() { # MODULE
    local fn more
    for fn in $($run --list "$mods/$1.fkm" | sed -n 's/^LIST \([^ ]*\) .* step=0 .*/\1/p'); do
        more=$($run --list --fn="$fn" "$mods/$1.fkm" | head -n 1)
        [[ $more == *" M="* ]] || absent+=M
        [[ $more == *" N="* ]] || absent+=N
        [[ $more == *" K="* ]] || absent+=K
        [[ $more == *" J="* ]] && absent+=J
        [[ $more == *" B="* ]] && more='-s B=2' || more=''
        [[ $absent == *J* ]] && more+=' -s J=5'
        [ "$fn" = call ] && more+=' --zero=c' # at 1x1x8 it is
        all "$1" "$fn" $more
        absent=
    done
}

# Loops over j in parts: all tiles cut, some, none; the words are clear again each time.
parts() {
    local fn variant size
    for fn in plain lengths tail kept rows both far nothing; do
        for variant in $(list online_split $fn | grep _split); do
            for size in "-s B=1 -s H=4 -s T=9000" "-s B=5 -s H=8 -s T=2055" "-s B=17 -s H=32 -s T=1100"; do
                [ $fn != tail ] || size+=" -s S=70"
                echo "--check --check-seconds=3 --repeat=3 --fn=$fn $size --variant=$variant $mods/online_split.fkm"
            done
        done
    done
}

cases() {
    local fn more matrix size odd
    parts
    deep=("1 16 4096" "130 264 2064" "512 512 1024" "1100 2100 4112")
    sizes=("1 8 64" "64 64 64" "128 256 128" "127 129 72" "129 257 520" "255 1000 584" "1000 136 1024" "300 520 8" "2000 1032 256")
    for fn in bias_gelu rowcol two gated; do all gemm_cases $fn; done
    deep=()
    for fn in bias_gelu rowcol two gated; do all gemm_cases_sm80 $fn; done
    deep=("1 16 4096" "130 264 2064" "512 512 1024" "1100 2100 4112")
    sizes=("8 8 8" "64 64 64" "128 256 128" "136 264 72" "1000 136 1000" "72 1032 584" "264 520 4096")
    for fn in nt nn tt tn out shifted half odd heads inner lone; do all gemm_orders $fn $(batch $fn); done
    for fn in nt nn tt tn out shifted half heads inner lone; do all gemm_orders_sm80 $fn $(batch $fn); done
    sizes=("8 16 16" "64 64 64" "128 256 128" "136 264 80" "1000 136 1008" "72 1040 592" "264 528 4096" "1 24 2064")
    for fn in plain rows inside chain heads wide; do all fp8_cases $fn $(batch $fn); done
    for fn in plain rows inside chain heads; do all fp8_cases_fast $fn $(batch $fn) --fast-accum; done
    sizes=("1 8 16" "1 64 64" "1 136 80" "1 1040 592" "1 72 4096" "1 2064 48" "1 264 1008")
    deep=("1 24 4096" "1 136 2064")
    absent=M
    for fn in linear across two batch last scores values norm eight eights; do all gemm_vectors $fn $(batch $fn); done
    for fn in eight eights; do all gemm_vectors_fast $fn $(batch $fn) --fast-accum; done
    absent=
    sizes=("64 64 64" "16 128 576" "129 260 128" "200 528 320" "1000 1040 1024" "72 2056 1280" "3 72 2048" "130 136 768")
    deep=()
    for fn in w4 nibbles bytes clamped both apart halves signs eights twice groups added large; do all gemm_made $fn; done
    all gemm_made masked -s B=3
    absent=M
    all gemm_made one
    absent=
    sizes=("33 71 77" "130 66 325" "2 3 1" "300 257 1001")
    for fn in nibbles bytes clamped both apart; do
        for size in "${sizes[@]}"; do one gemm_made $fn auto "$size"; done
    done
    deep=("1 24 4096" "1 136 2064")
    sizes=("1 1 8" "1 136 8" "72 104 64" "65 129 64" "200 257 200" "191 304 40" "296 1040 592" "1000 144 1008" "72 2064 48")
    reduced gemm_reduce
    sizes=("1 1 8" "1 1300 16" "72 520 64" "65 2049 64" "200 511 200" "191 304 48" "296 5000 592" "1000 1536 1008" "130 770 2064")
    reduced gemm_states
    sizes=("8 16 16" "64 64 64" "128 256 128" "136 264 80" "1000 136 1008" "72 1040 592" "264 528 4096" "1 24 2064")
    deep=("8 16 4096" "136 264 2064" "512 512 1024")
    reduced gemm_sums
    sizes=("8 16 16" "64 64 64" "128 256 128" "136 264 80" "1000 136 1008" "72 1040 592" "264 528 4096" "1 24 2064")
    reduced gemm_strips
    sizes=("64 64 64" "8 16 8" "129 256 128" "200 528 72" "300 1040 584" "1000 144 1000" "72 2064 40")
    for fn in gated half wide single eight ints aux batch loose long others; do
        more='' matrix=r odd=2
        case $fn in
        batch) more='-s B=2 -s H=8' ;;
        loose) more='-s B=2' ;;
        others) more='-s V=50' matrix=z ;;
        ints) matrix=q ;;
        aux) matrix=g ;;
        wide | single) odd=4 ;;
        long) odd=4 deep=() ;; # the sine of a sum of thousands
        esac
        all gemm_matrices $fn $more
        for size in "--pad $matrix=16" "--pad $matrix=3" "--offset $matrix=$odd" "--transpose $matrix"; do
            one gemm_matrices $fn auto "200 528 72" $size $more
        done
        one gemm_matrices $fn auto "77 531 72" $more
    done
}

cases | grep -E -e "${2:-.}" | awk -v every="${3:-1}" 'NR % every == 0' > "$work/cases"
[ "${1:-}" = --dry ] && { cat "$work/cases"; exit; }
awk -v dir="$work" '{ print > (dir "/chunk" NR % 48) }' "$work/cases"
find "$work" -name 'chunk*' | xargs -P "${1:-12}" -I{} bash -c 'left=$((end - $(date +%s))); [ $left -le 0 ] || timeout $left "$run" --cases={} --case-seconds=60 > {}.log 2>&1'
cat "$work"/chunk*.log > build-gpu/forced.log

# What a case prints stands before its line "CASE n exit code: its options".
awk -v all="$(wc -l < "$work/cases")" -v every="${3:-1}" '
function kind_of(line,    v, f, m) {
    match(line, /--variant=[^ ]*/)
    v = RSTART ? substr(line, RSTART + 10, RLENGTH - 10) : "auto"
    match(line, /--fn=[^ ]*/)
    f = substr(line, RSTART + 5, RLENGTH - 5)
    match(line, /[^\/]*\.fkm/)
    m = substr(line, RSTART, RLENGTH - 4)
    return m " " f " " v
}
/^CASE / {
    kind = kind_of($0)
    seen[kind] += 0
    n++
    if ($4 + 0 == 0) { pass++; seen[kind]++ }
    else if (said ~ /UNSUPPORTED/) skip++
    else if (++fail <= 12) { print "FAIL " $0; print substr(said, 1, 600) }
    said = ""
    next
}
{ said = said $0 "\n" }
END {
    for (k in seen)
        if (!seen[k] && every == 1) { print "FAIL " k ": at no sizes"; fail++ }
    if (n != all) { print "FAIL " all - n " cases did not end"; fail += all - n }
    print pass + 0 " passed, " fail + 0 " failed, " skip + 0 " skipped"
    exit fail > 0
}' build-gpu/forced.log
