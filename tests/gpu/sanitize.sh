#!/usr/bin/env bash
# On a machine with a GPU, after tests/gpu/pack.sh: programs under compute-sanitizer. memcheck for ten
# programs of the general kernel; memcheck and synccheck for every tensor-core variant of the first fn
# below and some of the others, the last ten of them forms of attention; racecheck for three of the first's
# variants, where every report must be explained in tests/gpu/races.txt.
#
#     tests/gpu/sanitize.sh [JOBS [SECONDS [PATTERN]]]     default: 8 at a time, no new ones after 400 s;
#                                                          PATTERN: only runs that match it, "mha:" say
#
# Writes build-gpu/sanitize.log. The last line is "N clean, N failed, N not run".
set -u
cd "$(dirname "$0")/../.." || exit 1
[ -n "${MODULES:-}" ] || bash tests/gpu/unpack.sh || exit 1
jobs=${1:-8}
export run=${FKRUN:-build-gpu/fkrun} mods=${MODULES:-build-gpu/modules}
export races=${RACES:-tests/gpu/races.txt}
export tool=${SANITIZER:-$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)}
log=${SANITIZE_LOG:-build-gpu/sanitize.log}
end=$(($(date +%s) + ${2:-400}))
export end
work=$(mktemp -d)
export work
trap 'rm -rf "$work"' EXIT

general="01_rowcol_two_out 05_attn_packed_qkv 12_rope_attn 18_ce_ignore 21_w4a16_group 29_quant_rows
    43_written_range lang_09_paged types gathers"
# So many variants at the most (from there on in turn), MODULE FN SIZES: ragged in M, N and K, some with
# more tiles than multiprocessors. FN/PART: only variants with that in their names.
fast="99 gemm_cases bias_gelu -s M=300 -s N=520 -s K=200
3 gemm_cases two -s M=129 -s N=264 -s K=72
3 gemm_cases gated -s M=200 -s N=136 -s K=64
3 gemm_cases rowcol -s M=1100 -s N=1032 -s K=72
3 gemm_orders tn -s M=264 -s N=136 -s K=72
3 gemm_orders heads -s B=2 -s H=8 -s M=72 -s N=136 -s K=80
3 fp8_rowscale fp8_rowscale -s M=130 -s N=272 -s K=144
9 gemm_cases two/_split -s M=130 -s N=264 -s K=1032
2 gemm_vectors linear -s N=520 -s K=200
2 gemm_vectors batch/plain -s B=3 -s N=77 -s K=51
2 fp8_cases rows/plain -s M=130 -s N=267 -s K=301
2 linear_gelu linear_gelu -s M=1 -s N=64 -s K=64
2 linear_gelu linear_gelu -s M=77 -s N=99 -s K=51
2 attention attention -s B=1 -s S=300 -s T=400 -s H=8 -s E=128
2 window_softcap window_softcap -s B=2 -s S=333 -s H=2 -s E=64
2 alibi alibi -s B=1 -s S=257 -s H=3 -s E=96
2 05_attn_packed_qkv mha -s B=2 -s S=250 -s H=2 -s E=128
2 07_attn_prefix prefix -s B=2 -s S=300 -s H=2 -s E=64
2 08_attn_document doc -s B=2 -s S=200 -s H=2 -s E=80
2 a17_bias_batches heads -s B=2 -s S=130 -s T=77 -s H=3 -s E=256
2 a44_head_dims dims -s B=1 -s S=200 -s T=330 -s H=2 -s E=192 -s V=128
2 paged_decode paged_decode -s B=5 -s H=16 -s E=128 -s T=1600 -s P=300
2 cross_entropy cross_entropy -s M=130 -s K=264 -s V=1000"
raced="coop pingpong direct" # of the first of them a variant of each kind

# Of the variants of a fn that take the sizes, other than the general kernel, so many: other ones for
# every TURN.
variants() { # TURN MOST MODULE FN SIZES...
    local turn=$1 most=$2 module=$3 fn=${4%/*} part=${4#*/}
    [ "$part" != "$4" ] || part=
    shift 4
    "$run" --list --fn "$fn" "$@" "$mods/$module.fkm" | grep -v 'not for these' |
        sed -n 's/^  variant=\([^ ]*\) .*/\1/p' | sort -u | grep -vx general | grep -e "$part" |
        awk -v turn="$turn" -v most="$most" '{ v[NR] = $0 }
            END { for (i = 0; i < NR && i < most; i++) print v[(turn * most + i) % NR + 1] }'
}

jobs_of() { # one a line: TOOL NAME MODULE ARGUMENTS OF FKRUN
    local name row most module fn sizes v found turn=0
    for name in $general; do echo "memcheck $name $name --seed 3"; done
    while read -r row; do
        read -r most module fn sizes <<< "$row"
        # shellcheck disable=SC2086
        found=$(variants $turn "$most" "$module" "$fn" $sizes)
        turn=$((turn + 1)) fn=${fn%/*}
        [ -n "$found" ] || found=auto
        for v in $found; do
            name="$fn:$v" force="--variant $v"
            [ "$v" = auto ] && force=
            echo "memcheck $name $module --fn $fn $sizes $force"
            echo "synccheck $name $module --fn $fn $sizes $force"
        done
    done <<< "$fast"
    read -r most module fn sizes <<< "$fast"
    # shellcheck disable=SC2086
    for v in $raced; do variants 0 99 "$module" "$fn" $sizes | grep "^$v" | head -n 1; done |
        sed "s|.*|racecheck $fn:& $module --fn $fn $sizes --variant &|"
    echo "racecheck two:swap_64x16_split gemm_cases --fn two -s M=130 -s N=264 -s K=1032 --variant swap_64x16_split"
}

# Prints what a report says beyond what is explained; its first lines.
unexplained() { # FILE
    sed -n 's/  *#.*//; s/^\([^#].*[^ ]\)   *[^ ].*/\1/p' "$races" > "$1.known"
    grep -E '^=+ (Error|Warning|Invalid|Barrier|Race|Potential|Program)' "$1" | grep -vEf "$1.known" || true
}

one() { # A line of jobs_of: its verdict, one line, and in the log all that was printed
    local words out rc
    read -ra words <<< "$1"
    [ "$(date +%s)" -lt "$end" ] || return 0
    out=$(mktemp -p "$work" out.XXXX)
    timeout -k 5 120 "$tool" --tool "${words[0]}" --error-exitcode 9 "$run" --check --check-seconds 2 \
        "${words[@]:3}" "$mods/${words[2]}.fkm" > "$out" 2>&1
    rc=$?
    {
        if grep -q '^PASS' "$out" && grep -Eq 'ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards' "$out" && [ $rc -eq 0 ]; then
            echo "clean ${words[0]} ${words[1]}"
        elif [ "${words[0]}" = racecheck ] && grep -q '^PASS' "$out" && grep -q 'RACECHECK SUMMARY' "$out" &&
            [ -z "$(unexplained "$out")" ]; then
            echo "clean ${words[0]} ${words[1]}, with reports that races.txt explains"
        else
            echo "FAIL ($rc) ${words[0]} ${words[1]}: $tool --tool ${words[0]} $run --check ${words[*]:3} $mods/${words[2]}.fkm"
            unexplained "$out" | sort | uniq -c | sort -rn | head -n 6
            grep -v '^=' "$out" | head -n 4
        fi
    } > "$out.verdict"
}
export -f one unexplained

read -r _ module fn sizes <<< "$fast"
# shellcheck disable=SC2086
if ! "$tool" --tool memcheck "$run" --fn "$fn" $sizes "$mods/$module.fkm" > "$work/first" 2>&1; then
    head -n 12 "$work/first"
    grep -q 'Device not supported' "$work/first" && echo "compute-sanitizer does not work on this machine: nothing was run"
fi
jobs_of | grep -E -e "${3:-.}" > "$work/jobs"
grep -q 'Device not supported' "$work/first" || xargs -a "$work/jobs" -P "$jobs" -d '\n' -I{} bash -c 'one "$1"' one {}
cat "$work"/out.*.verdict 2> /dev/null | sort | tee "$work/verdicts"
{
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2> /dev/null
    "$tool" --version 2> /dev/null
    date -u +%F
    cat "$work/verdicts"
    for f in "$work"/out.*.verdict; do
        grep -q '^clean [a-z]* [^,]*$' "$f" && continue
        cat "$f" && head -n 200 "${f%.verdict}"
    done
} > "$log"
clean=$(grep -c '^clean' "$work/verdicts") fail=$(grep -c '^FAIL' "$work/verdicts") all=$(wc -l < "$work/jobs")
echo "$clean clean, $fail failed, $((all - clean - fail)) not run" | tee -a "$log"
[ "$fail" -eq 0 ] && [ "$clean" -eq "$all" ]
