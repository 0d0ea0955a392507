#!/usr/bin/env bash
# Attention whose keys are bounded by affine conditions, on the emulated device (ctest: emu_online):
# right at lengths that cut blocks in all ways, when CTAs go from tile to tile; products are made of
# the blocks, and halves of blocks, that a group of 64 rows needs, and of no others; elements that are
# out are masked once.
set -u
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
bad=0 checks=0

program() { # NAME DOMAIN [PARAMETER [SECOND DOMAIN]]
    local other=${4-$2}
    cat > "$1.fk" <<END
fn f(q: bf16[B, S, H, E], k: bf16[B, T, H, E], v: bf16[B, T, H, E]${3:+, $3}) -> (o: bf16[B, S, H, E], l: f32[B, H, S])
{
    s[b, h, i, j] = E^-0.5 * sum[e] q[b, i, h, e] * k[b, j, h, e]
    p[b, h, i, j] = softmax[j$2](s[b, h, i, j])
    o[b, i, h, e] = sum[j] p[b, h, i, j] * v[b, j, h, e]
    l[b, h, i] = logsumexp[j$other](s[b, h, i, j])
}
END
    "$build/fkc" --ptxas=none --no-expect --bind=E=64 "$1.fk" -o "$1.fkm" || exit 1
}

program full ""
program causal " where j <= i"
program bottom " where j <= i + T - S"
program window " where 0 <= i - j and i - j < 100"
program narrow " where 0 <= i - j and i - j < 40"
program band " where j - i <= 30 and i - j < 77"
program above " where i <= j"
program steep " where j <= 2 * i"
program below " where i - j < 90"
program prefix " where j < pre[b] or j <= i" "pre: i32[B]"
program kept " where j <= i and keep[b, j]" "keep: bool[B, T]"
program unlike " where j <= i and keep[b, j]" "keep: bool[B, T]" " where j <= i"

program documents " where iq[b, i] == ik[b, j] and j <= i" "iq: i32[B, S], ik: i32[B, T]"
program later " where iq[b, i] <= ik[b, j] and j <= i" "iq: i32[B, S], ik: i32[B, T]"

# ---- right ----
for m in *.fkm; do
    "$build/fkrun" --list "$m" | grep -o 'variant=online[^ ]*' | sort -u > variants
    [ -s variants ] || { echo "WRONG: $m has no such variant"; bad=$((bad + 1)); }
    while read -r variant; do
        for st in "130 130" "200 130" "130 300" "64 257" "390 390" "1 200" "250 40"; do
            echo "--device=emu --check --zero=o --zero=l --seed=1 --$variant -s B=1 -s H=1 -s S=${st% *} -s T=${st#* } $m"
        done
    done < variants >> cases
done
FK_EMU_SEED=7 FK_EMU_SMS=2 "$build/fkrun" --cases=cases > out 2>&1
checks=$((checks + $(wc -l < cases)))
bad=$((bad + $(grep -c '^CASE.* exit [1-9]' out)))
grep -B2 '^CASE.* exit [1-9]' out | cut -c1-300 | head -n 30
[ "$(grep -c '^CASE' out)" = "$(wc -l < cases)" ] || { tail -n 3 out; exit 1; }

# ---- blocks that a group needs, and halves of them ----
quarters() { # COUNT PROGRAM VARIANT S T: of 64 rows by the variant's block: half of its scores, or of its products
    local block=${3#*x}
    checks=$((checks + 1))
    FK_EMU_STATS=1 FK_EMU_SMS=1 "$build/fkrun" --device=emu --variant="online_$3" -s B=1 -s H=1 -s S="$4" -s T="$5" \
        "$2.fkm" > out 2> said || { cat out said; exit 1; }
    local want=$(($1 * 64 * ${block%%_*} * 64))
    grep -q "^emu: tensor op=wgmma .* flops=$want\$" said && return
    bad=$((bad + 1))
    echo "WRONG: $2 $3 S=$4 T=$5 makes no $want:"
    grep tensor said
}
quarters 48 full 192x128_persistent_pingpong 192 512
quarters 13 causal 192x128_persistent_pingpong 192 192  # 1, 1, 2 of 2 blocks: halves of 64 columns but for the
quarters 43 causal 192x128_persistent_pingpong 384 384  # products of an only block; and 2, 3, 3 of 3
quarters 7 causal 128x128_lag32_persistent 128 128
quarters 21 causal 128x128_lag32 256 256                # 1, 1, 2, 2
quarters 8 above 192x128_persistent_pingpong 192 128    # 1, 1, 0
quarters 20 above 192x128_persistent_pingpong 192 256   # 2, 2, 1: whole ones at lower bounds
quarters 40 steep 128x128_lag32_persistent 256 512      # 1, 2, 3, 4
quarters 22 window 128x128_lag32_persistent 256 256     # 1, 1, 2, 2; what follows a half is cut, too
quarters 8 below 128x80_lag16 128 80                    # rows that need none: the group makes none

# ---- masks ----
counted() { # LINES OPERATOR COUNT PROGRAM: of its kernel
    checks=$((checks + 1))
    local n
    n=$("$build/fkc" --ptxas=none --no-expect --bind=E=64 --emit=ptx "$4.fk" -o - |
        sed -n '/entry f_0_online_128x128_lag32(/,/^}/p' | grep -c "$1")
    [ "$n" "$2" "$3" ] && return
    bad=$((bad + 1))
    echo "WRONG: $4 has $n of $1, not $2 $3"
}
zeros() { counted 'selp.f32.*0f00000000' "$@"; } # elements that become 0, beside the few of frames
ballots() { counted 'vote.sync.ballot' "$@"; }   # conditions that a warp's votes tell
zeros -lt 64 causal # exp(-inf - frame) is
zeros -lt 64 window
zeros -lt 64 kept
zeros -gt 100 unlike # a frame's elements are not those of each sum
ballots -gt 0 kept
ballots -gt 0 documents
ballots -eq 0 unlike # not of all sums
ballots -eq 0 later  # rows may have 16 numbers, of which none need be equal
ballots -eq 0 causal
echo "$checks checks, $bad wrong"
[ $bad -eq 0 ]
