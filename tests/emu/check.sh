#!/usr/bin/env bash
# Compiled modules on the emulated device, checked against the reference (ctest: emu_examples,
# emu_programs, emu_cases, emu_edges, emu_gemm, emu_vectors, emu_made, emu_unaligned, emu_reduce,
# emu_states, emu_picks, emu_split, emu_rows, emu_edges80, emu_sync, emu_sums, emu_strips).
#
#     check.sh BUILD KIND [SECONDS]     KIND as above, without emu_; SECONDS: no new module after so long
#
# examples, programs: every accepted one, sizes drawn up to 20, twice, the second time from another
# seed with tasks in another order. cases: at the sizes of their "# run:" lines, large ones left out.
# gemm, vectors, reduce, states: every tensor-core variant by force, ragged, with 132 multiprocessors and
# with 2, so that CTAs have many tiles; vectors: one factor is one; made: factors that threads make; reduce: of
# reductions of the product; states: of those in moving frames. edges: the rows of edges.txt, each variant at two
# of the sizes; edges80: those for sm_80, of some rows every fourth.
# picks: attention where data leave out blocks, and how many. split: loops over j in parts, by force and by
# the rule. rows: rows.fk, each variant by force at lengths that fill it, that do not, and ragged ones where it
# takes them; one that never runs is a fault. sync: as gemm, of modules for sm_80 and sm_86. sums: as reduce, of
# several products in one loop. strips: as reduce, of products whose scales are of blocks of k.
set -u
build=$(cd "$1" && pwd) what=$2 end=$(($(date +%s) + ${3:-100000}))
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fkc=$build/fkc fkrun=$build/fkrun
pass=0 fail=0 skip=0

module() { # FILE [OPTIONS]: its module, in $mod; false if time is up or the program is a refused one
    mod=$work/$(basename "$1" .fk).fkm
    head -n 1 "$1" | grep -q '^# refused' && return 1
    [ "$(date +%s)" -ge "$end" ] && return 1
    "$fkc" --ptxas=none --no-expect "${@:2}" "$1" -o "$mod" 2> "$work/said" && return 0
    echo "FAIL to compile $1"
    cat "$work/said"
    fail=$((fail + 1))
    return 1
}

# FN of FILE alone, in $file: a module of many is long to read.
alone() { # FILE FN
    file=$work/$2.fk
    awk -v fn="$2" '/^fn / { split($2, name, "("); on = name[1] == fn } on' "$1" > "$file"
}

# The lines of $work/cases, with what is set in front; those that a variant does not take are no fault.
run() { # [NAME=VALUE...]
    [ -s "$work/cases" ] || return
    env "$@" "$fkrun" --cases="$work/cases" > "$work/log" 2>&1
    awk '/^CASE / { print $4 + 0, said; said = ""; next } { said = said " | " $0 }' "$work/log" > "$work/ends"
    pass=$((pass + $(grep -c '^0 ' "$work/ends")))
    skip=$((skip + $(grep -v '^0 ' "$work/ends" | grep -c UNSUPPORTED)))
    fail=$((fail + $(grep -v '^0 ' "$work/ends" | grep -vc UNSUPPORTED)))
    grep -v '^0 ' "$work/ends" | grep -v UNSUPPORTED | cut -c1-1500
    [ "$(wc -l < "$work/ends")" -eq "$(wc -l < "$work/cases")" ] || { tail -n 5 "$work/log"; fail=$((fail + 1)); }
}

drawn() { # FILES
    for f; do
        module "$f" || continue
        echo "--device=emu --check --check-seconds=5 --most=20 --seed=1 $mod" > "$work/cases"
        run
        echo "--device=emu --check --check-seconds=5 --most=20 --seed=2 $mod" > "$work/cases"
        run FK_EMU_SEED=7
    done
}

# M * N * K and the like: what the general kernel does in a few seconds.
small() { # NAME=VALUE...
    local product=1 w
    for w; do [[ $w =~ ^[A-Z]+=([0-9]+)$ ]] && product=$((product * (BASH_REMATCH[1] > 0 ? BASH_REMATCH[1] : 1))); done
    [ $product -le 40000000 ]
}

cases() {
    for f in tests/cases/*.fk; do
        module "$f" || continue
        : > "$work/cases"
        while read -r words; do
            # shellcheck disable=SC2086
            small $words || continue
            args=
            for w in $words; do [[ $w =~ ^[A-Z]+=[0-9]+$ ]] && args+=" -s $w" || args+=" $w"; done
            echo "--device=emu --check --check-seconds=5$args $mod" >> "$work/cases"
        done < <(sed -n 's/^# run: //p' "$f")
        run
    done
}

gemm() {
    products tests/gpu/gemm.fk bias_gelu rowcol two gated
    products tests/gpu/orders.fk shifted half odd
    module tests/emu/narrow.fk --invariant || return
    echo "--device=emu --check --check-seconds=5 -s M=48 -s N=16 -s K=304 --variant=thin_16x32 $mod" > "$work/cases"
    run FK_EMU_SMS=2 FK_EMU_SEED=3
}

# mma.sync: tiles over edges, stages that are not full, fewer and more of them than there are slots.
sync() {
    local m n k size
    options=--arch=sm_80
    products tests/gpu/gemm.fk two gated
    products tests/gpu/orders.fk nn tt heads
    products tests/gpu/sums.fk gated four
    options=--arch=sm_86
    products tests/gpu/orders.fk tn
    # of both kinds the emulated device, an sm_90a, takes its own
    module examples/linear_gelu.fk --arch=sm_80,sm_90a || return
    for size in "8 8 8" "77 133 75" "200 136 264"; do
        read -r m n k <<< "$size"
        echo "--device=emu --check --check-seconds=5 -s M=$m -s N=$n -s K=$k $mod"
    done > "$work/cases"
    run
    grep -q 'variant=mma_' "$work/log" && { cat "$work/log"; fail=$((fail + 1)); }
}

options= # of fkc, for products
products() { # FILE FN...
    local file fn variant size sizes batch
    for fn in "${@:2}"; do
        alone "$1" "$fn"
        # shellcheck disable=SC2086
        module "$file" $options || continue
        [ "$fn" = heads ] && batch=' -s B=1 -s H=4' || batch=
        : > "$work/cases"
        for variant in $("$fkrun" --list -s M=512 -s N=512 -s K=256 "$mod" | sed -n 's/.*variant=\([^ ]*\) .*/\1/p'); do
            [ "$variant" = general ] && continue
            sizes=("1 8 64" "130 264 72" "257 520 200")
            [[ $variant == *_split ]] && sizes+=("130 264 1000" "40 64 1500")
            [[ $options ]] && sizes=("8 8 8" "136 264 200")
            [[ $variant == mma_*_split ]] && sizes=("40 64 1504" "136 264 1000")
            [[ $variant == mma_plain_* ]] && sizes=("1 1 1" "133 137 77")
            for size in "${sizes[@]}"; do
                read -r m n k <<< "$size"
                echo "--device=emu --check --check-seconds=5 --repeat=2 -s M=$m -s N=$n -s K=$k$batch --variant=$variant $mod" >> "$work/cases"
            done
        done
        [[ $options ]] || run
        run FK_EMU_SMS=2 FK_EMU_SEED=3
    done
}

vectors() {
    local fn variant size more
    module tests/gpu/vectors.fk || return
    for fn in $("$fkrun" --list "$mod" | sed -n 's/^LIST \([^ ]*\) .* step=0 .*/\1/p'); do
        : > "$work/cases"
        more=$("$fkrun" --list --fn="$fn" "$mod" | head -n 1)
        [[ $more == *" B="* ]] && size='-s B=8' || size=''
        [[ $more == *" H="* ]] && size+=' -s H=8'
        for variant in $("$fkrun" --list --fn="$fn" "$mod" | sed -n 's/.*variant=\([^ ]*\) .*/\1/p' | sort -u); do
            [ "$variant" = general ] && continue
            for nk in "136 72" "520 208" "24 1040"; do
                read -r n k <<< "$nk"
                echo "--device=emu --check --check-seconds=5 --repeat=2 --fn=$fn -s N=$n -s K=$k $size --variant=$variant $mod" >> "$work/cases"
            done
        done
        run
        run FK_EMU_SMS=2 FK_EMU_SEED=3
    done
}

# Each variant somewhere at whole vectors, at the ends of groups and stages, and, of threads that load one by one,
# at odd sizes.
made() {
    local fn variant size sizes head before
    for fn in $(sed -n 's/^fn \([a-z0-9_]*\)(.*/\1/p' tests/gpu/made.fk); do
        alone tests/gpu/made.fk "$fn"
        module "$file" || continue
        "$fkrun" --list "$mod" > "$work/list"
        head=$(head -n 1 "$work/list")
        for variant in $(sed -n 's/.*variant=\([^ ]*\) .*/\1/p' "$work/list"); do
            [ "$variant" = general ] && continue
            sizes=("136 40 64" "72 264 448")
            [[ $variant != *_plain_* || $fn == @(w4|halves|signs|eights|groups|added) ]] || sizes=("33 71 77" "130 66 320" "2 3 1")
            [[ $variant != regs_* ]] || sizes=("72 136 1024" "9 200 1280")
            [[ $variant != regs_*x64 ]] || sizes=("136 72 64" "72 264 448")
            : > "$work/cases"
            for size in "${sizes[@]}"; do
                read -r m n k <<< "$size"
                size="-s N=$n -s K=$k"
                [[ $head == *" M="* ]] && size+=" -s M=$m"
                [[ $head == *" B="* ]] && size+=" -s B=2"
                echo "--device=emu --check --check-seconds=2 --repeat=2 $size --variant=$variant $mod" >> "$work/cases"
            done
            before=$pass
            run FK_EMU_SMS=2 FK_EMU_SEED=3
            [ $pass -gt "$before" ] || { echo "FAIL $fn: $variant never ran"; fail=$((fail + 1)); }
        done
    done
}

# The cases of tests/gpu/unaligned.sh whose factors are fp8 or vectors; every third of
# those that have several.
unaligned() {
    local lines
    lines=$(bash tests/gpu/unaligned.sh --dry)
    for words in "fp8_cases fp8" "fp8_cases_fast fp8 --fast-accum" "gemm_vectors vectors" "gemm_sums sums"; do
        # shellcheck disable=SC2086
        set -- $words
        module "tests/gpu/$2.fk" "${@:3}" || return
        grep "/$1.fkm" <<< "$lines" | sed "s#[^ ]*/$1.fkm#$mod#; s/^/--device=emu /" |
            awk -v every=$([ "$2" = sums ] && echo 3 || echo 1) 'NR % every == 0' > "$work/cases"
        run
    done
}

reduce() { # FILE M N K M N K: the second with few multiprocessors
    local file fn variant size head to
    for fn in $(sed -n 's/^fn \([a-z0-9_]*\)(.*/\1/p' "$1"); do
        alone "$1" "$fn"
        module "$file" || continue
        : > "$work/many"
        : > "$work/few"
        "$fkrun" --list "$mod" > "$work/list"
        head=$(head -n 1 "$work/list")
        for variant in $(sed -n 's/.*variant=\([^ ]*\) .*/\1/p' "$work/list" | sort -u); do
            [ "$variant" = general ] && continue
            for mnk in "many $2 $3 $4" "few $5 $6 $7"; do
                read -r to m n k <<< "$mnk"
                size=
                [[ $head == *" K="* ]] && size+=" -s K=$k"
                [[ $head == *" M="* ]] && size+=" -s M=$m"
                [[ $head == *" N="* ]] && size+=" -s N=$n"
                [[ $head == *" B="* ]] && size+=" -s B=2"
                [[ $head == *" J="* ]] && size+=" -s J=3"
                echo "--device=emu --check --check-seconds=5 $size --variant=$variant $mod" >> "$work/$to"
            done
        done
        cp "$work/many" "$work/cases"
        run
        cp "$work/few" "$work/cases"
        run FK_EMU_SMS=2 FK_EMU_SEED=3
    done
}

# The rows of edges.txt that match: a fn, its variants for loops with carries (every EACH-th in turn), sizes.
edges() { # ROWS EACH [OPTIONS]
    local ids file fn all sizes variants v k before turn=0 last= rows=$1 each=$2
    shift 2
    while IFS='|' read -r ids file fn all; do
        [ "$file" = "$last" ] || module "tests/cases/${file// /}.fk" "$@" || continue
        last=$file
        variants=$("$fkrun" --list --fn="${fn// /}" "$mod" | grep -oE 'variant=online_[^ ]*' | sort -u)
        : > "$work/cases"
        IFS=';' read -ra sizes <<< "$all"
        for v in $variants; do
            for k in 0 1; do
                [ $((turn % each)) = 0 ] || continue
                echo "--device=emu --check --check-seconds=5 --fn=${fn// /} --$v$(
                    sed -E 's/(^| )([A-Z]=)/\1-s \2/g' <<< "${sizes[(turn + k) % ${#sizes[@]}]}") $mod" >> "$work/cases"
            done
            turn=$((turn + 1))
        done
        before=$pass
        run
        [ $pass -gt "$before" ] || { echo "FAIL $ids: no variant online_* of $file $fn is right"; fail=$((fail + 1)); }
    done < <(grep -v '^#' tests/emu/edges.txt | grep -E "$rows")
}

rows() {
    local fn variant n m b more before
    module tests/emu/rows.fk || return
    for fn in $(sed -n 's/^fn \([a-z_]*\)(.*/\1/p' tests/emu/rows.fk); do
        for variant in $("$fkrun" --list --fn="$fn" "$mod" | sed -n 's/.*variant=\([^ ]*\) .*/\1/p'); do
            n=$(grep -o '[0-9]*' <<< "$variant" | head -n 1) before=$pass
            [ "$variant" = general ] && n=100
            m=5 b=2 more=
            [[ $fn = plane* ]] && m=2 n=$((n / 2)) # two axes are the row
            [[ $fn,$variant = plane*,row_8 ]] && m=1 b=1 n=8 # one vector: of one axis
            [[ $variant = rows_* ]] && more="$((n + 16)) $((n + 1))"
            [[ $variant = cut_* ]] && more="$((3 * n + 16)) $((2 * n + 1))"
            [[ $variant = crossed* ]] && m=72
            [[ $variant = columns* ]] && m=133 more=$((2 * n + 8))
            : > "$work/cases"
            for n in "$n" $((n - n / 4)) $((n - 1)) 16 1 $more; do
                [ "$n" -gt 17000 ] && n=17008 # 32768 of them take long, and are no other code
                echo "--device=emu --check --check-seconds=2 --fn=$fn -s M=$((n == 16 ? 8 : n > 4000 && m == 5 ? 2 : m)) -s N=$n -s B=$b --variant=$variant $mod"
            done | sed -E "$(for k in B M N; do grep -q "^fn $fn(.*\[[^]]*\b$k\b" tests/emu/rows.fk || echo "s/ -s $k=[0-9]*//;"; done)" >> "$work/cases"
            run FK_EMU_SMS=2 FK_EMU_SEED=5
            [ $pass -gt "$before" ] || { echo "FAIL $fn: $variant never ran"; fail=$((fail + 1)); }
        done
    done
}

# With data that a program of picks.fk makes each variant is right, and one has as many blocks of 128 x 128 (of
# 18 wgmmas) as those in which a tile's rows may have something, of 42 or, not causal, 72.
picks() {
    local t fn variant list blocks
    module tests/emu/picks.fk || return
    for t in 130 700; do
        list=
        for x in id mixed big start lo hi keep; do list+=" --out=$x=$work/$x$t.npy"; done
        # shellcheck disable=SC2086
        "$fkrun" --device=emu --fn=data -s B=2 -s T=$t $list "$mod" > "$work/said" || { cat "$work/said"; fail=1; return; }
    done
    for words in "documents 23" "both_ways 44" "wide_ids 23" "starts 9" "bands 28" "kept 45"; do
        read -r fn blocks <<< "$words"
        : > "$work/cases"
        for variant in $("$fkrun" --list --fn="$fn" "$mod" | sed -n 's/.*variant=\([^ ]*\) .*/\1/p'); do
            [ "$variant" = general ] && continue
            for t in 130 700; do
                list=
                for x in id mixed big start lo hi keep; do
                    grep -q "^fn $fn(.* $x: " tests/emu/picks.fk && list+=" --in=$x=$work/$x$t.npy"
                done
                echo "--device=emu --check --check-seconds=5 --fn=$fn -s B=2 -s T=$t$list --variant=$variant $mod" >> "$work/cases"
            done
        done
        run FK_EMU_SMS=2 FK_EMU_SEED=3
        # shellcheck disable=SC2046
        FK_EMU_STATS=1 "$fkrun" $(grep 'T=700.*=online_128x128_lag32 ' "$work/cases") > "$work/said" 2>&1
        grep -q "op=wgmma instructions=$((18 * blocks)) " "$work/said" && continue
        echo "FAIL $fn: not $blocks blocks: $(grep op=wgmma "$work/said")"
        fail=$((fail + 1))
    done
}

# Sizes of which all tiles, some or none are cut; the last ones by the rule, which must cut.
split() {
    local fn variant head size sizes
    for e in 64 80; do
        module tests/gpu/split.fk --bind E=$e || return
        for fn in $(sed -n 's/^fn \([a-z0-9_]*\)(.*/\1/p' tests/gpu/split.fk); do
            : > "$work/cases"
            head=$("$fkrun" --list --fn="$fn" "$mod" | head -n 1)
            if [[ $head == *" S="* ]]; then sizes=("1 2 1 1300" "2 1 9 2100" "1 1 70 1100" "1 1 1200 1090")
            else sizes=("2 8 0 1300" "1 4 0 3000" "3 8 0 700"); fi
            [ $e = 80 ] && sizes=("${sizes[0]}")
            [ "$e $fn" = "64 plain" ] && sizes+=("17 32 0 1030")
            for variant in $("$fkrun" --list --fn="$fn" "$mod" | sed -n 's/.*variant=\(online[^ ]*_split\) .*/\1/p'); do
                for size in "${sizes[@]}"; do
                    read -r b h s t <<< "$size"
                    size="-s B=$b -s H=$h -s T=$t"
                    [ "$s" = 0 ] || size+=" -s S=$s"
                    echo "--device=emu --check --check-seconds=5 --repeat=2 --fn=$fn $size --variant=$variant $mod" >> "$work/cases"
                done
            done
            run
            run FK_EMU_SMS=2 FK_EMU_SEED=3
        done
        echo "--device=emu --check --check-seconds=5 --fn=plain -s B=1 -s H=8 -s T=3000 $mod" > "$work/cases"
        run
        grep -q '_split$' "$work/log" || { echo "FAIL not cut by the rule: $(cat "$work/log")"; fail=$((fail + 1)); }
    done
}

case $what in
edges) edges . 1 ;;
edges80) edges 'a37_.* bottom|left_out|a44|skipped.* causal' 4 --arch=sm_80 ;;
examples) drawn examples/*.fk ;;
programs) drawn tests/programs/*.fk ;;
cases) cases ;;
gemm) gemm ;;
vectors) vectors ;;
made) made ;;
unaligned) unaligned ;;
reduce) reduce tests/gpu/reduce.fk 72 136 80 136 264 48 ;;
states) reduce tests/gpu/states.fk 72 136 80 136 1100 48 ;;
picks) picks ;;
split) split ;;
rows) rows ;;
sync) sync ;;
sums) reduce tests/gpu/sums.fk 72 136 80 264 136 144 ;;
strips) reduce tests/gpu/strips.fk 72 136 272 264 136 656 ;;
*) exit 2 ;;
esac
echo "$what on the emulated device: $pass passed, $fail failed, $skip skipped"
[ $fail -eq 0 ] && [ $pass -gt 0 ]
