#!/usr/bin/env bash
# fkrun: its command line, inputs and outputs, the reference, and what it says without a GPU.
. "$(dirname "$0")/lib.sh"
run 0 "help" "$fkrun" --help
for o in fn cases case-seconds size most device reference fkc seed in out print offset pad transpose \
    scalars check check-seconds repeat graph bench variant zero list tune write help version; do
    has "$out" "--$o"
done
run 0 "version" "$fkrun" --version
has "$out" "fkrun "
run 2 "no module" "$fkrun"
has "$err" "no module; fkrun --help shows how"
run 2 "unknown option" "$fkrun" --chekc m.fkm
has "$err" "did you mean '--check'?"
run 3 "missing module" "$fkrun" missing.fkm
has "$err" "cannot read missing.fkm"
echo "not a module" >bad.fkm
run 3 "no module" "$fkrun" bad.fkm --reference
has "$err" "bad.fkm: "

# Temporaries of a chain: two of them live at a time.
cat >chain.fk <<'END'
fn chain(x: f32[M, M]) -> (y: f32[M, M]) {
    a[m, n] = x[m, n] - max[k] x[m, k]
    b[m, n] = a[m, n] * max[k] a[k, n]
    c[m, n] = b[m, n] - max[k] b[m, k]
    y[m, n] = c[m, n] * max[k] c[k, n]
}
END
run 0 "places are shared" "$fkrun" --list chain.fk -s M=64 -- --no-fuse $quick
has "$out" "temporaries=7 bytes=33024 unshared=50176"
run 0 "and right" "$fkrun" --device=emu --check chain.fk -s M=40 -- --no-fuse $quick
has "$out" "PASS chain"
run 0 "as a graph" "$fkrun" --device=emu --check --graph --repeat=2 chain.fk -s M=40 -- --no-fuse $quick
has "$out" "PASS chain"

# A .fk is compiled by the fkc beside fkrun; what stands behind -- is for fkc.
cat >add.fk <<'END'
fn add(x: f32[M, N], s: f32) -> (y: f32[M, N]) { y[m, n] = x[m, n] + s }
fn count(k: i32[N], t: f32[V]) -> (c: i32[N], p: f32[N]) {
    c[n] = k[n] * 2
    p[n] = t[k[n]]
}
END
run 0 "a reference" "$fkrun" add.fk --reference --fn add -s M=3 -s N=5 -- --ptxas=none
has "$out" "REFERENCE add M=3 N=5"
has "$out" "out y: f32[3, 5] ="
run 0 "the same inputs for the same seed" "$fkrun" add.fk --reference --fn add -s M=3 -s N=5 --print -- --ptxas=none
cp "$out" first
run 0 "again" "$fkrun" add.fk --reference --fn add -s M=3 -s N=5 --print -- --ptxas=none
holds "the same" cmp -s first "$out"
run 0 "another seed" "$fkrun" add.fk --reference --fn add -s M=3 -s N=5 --print --seed=7 -- --ptxas=none
holds "other inputs" test "$(cmp -s first "$out"; echo $?)" = 1
run 0 "small sizes" "$fkrun" add.fk --reference --fn add --most=1 -- --ptxas=none
has "$out" "REFERENCE add M=1 N=1"
run 1 "a wrong program" sh -c "echo 'fn f' >w.fk; '$fkrun' w.fk"
has "$err" "w.fk:"
run 3 "no fkc" "$fkrun" --fkc=/nonexistent/fkc add.fk
has "$err" "cannot run /nonexistent/fkc"
run 0 "compile" "$fkc" --ptxas=none add.fk -o add.fkm
run 1 "no such fn" "$fkrun" --fn=sub --reference add.fkm
has "$err" "no fn 'sub' in the module"

# .npy in and out.
run 0 "write" "$fkrun" --reference --fn=add -s M=2 -s N=3 --out y=y.npy add.fkm
run 0 "read it back" "$fkrun" --reference --fn=add --in x=y.npy --print add.fkm
has "$out" "REFERENCE add M=2 N=3"
run 2 "wrong rank" "$fkrun" --reference --fn=add --in s=y.npy add.fkm
has "$err" "y.npy has 2 dimensions, s has 0"
run 2 "no such tensor" "$fkrun" --reference --fn=add --in q=y.npy add.fkm
has "$err" "--in=q=y.npy: no fn that runs has such an input"
run 2 "an output is no input" "$fkrun" --reference --fn=add --in y=y.npy add.fkm
has "$err" "--in=y=y.npy: no fn that runs has such an input"
run 2 "an input is no output" "$fkrun" --reference --fn=add -o x=z.npy add.fkm
has "$err" "--out=x=z.npy: no fn that runs has such an output"
run 3 "no such file" "$fkrun" --reference --fn=add -i x=/nope add.fkm
has "$err" "cannot read /nope: No such file or directory"
run 2 "more than any memory" "$fkrun" --reference --fn=add -s M=1000000000000 -s N=1000000 add.fkm
has "$err" "x has too many elements"
run 2 "a pad as large" "$fkrun" --reference --fn=add -s M=1 -s N=1 --pad=x=9223372036854775807 add.fkm
has "$err" "x has too many elements"
if [ -z "${SANITIZED:-}" ]; then # whose malloc does not fail
    run 3 "no memory" "$fkrun" --reference --fn=add -s M=1000000000 -s N=1000000 add.fkm
    has "$err" "no memory for x"
fi
run 2 "no such size" "$fkrun" --reference --size=Q=3 add.fkm
has "$err" "--size=Q=3: no fn that runs has such a size"
run 2 "no .npy" sh -c "echo hello there you >h.npy; '$fkrun' --reference --fn=add --in x=h.npy add.fkm"
has "$err" "h.npy: it is no .npy file"
# Layouts change where elements are, not what they are.
"$fkrun" --reference --fn=add -s M=4 -s N=6 add.fkm >plain
run 0 "layouts" "$fkrun" --reference --fn=add -s M=4 -s N=6 --offset x=2 --pad x=3 --transpose x --pad y=1 --scalars=device add.fkm
holds "the same values" cmp -s plain "$out"
run 2 "a size that is none" "$fkrun" --size=M add.fkm --reference
has "$err" "--size=M: needs NAME=VALUE"
for v in 1e3 -1 "" 99999999999999999999; do
    run 2 "a size of '$v'" "$fkrun" -s "M=$v" add.fkm --reference
    has "$err" "--size=M=$v: '$v' is no size: digits alone, as in M=1000"
done
for o in repeat most; do
    run 2 "--$o=0" "$fkrun" --$o=0 --reference add.fkm
    has "$err" "--$o=0: needs a number from 1 on"
done
run 0 "stripped" "$fkc" --ptxas=none --strip add.fk -o bare.fkm
run 2 "no reference in it" "$fkrun" --reference bare.fkm
has "$err" "stripped of its graph, which says what is right; run the program itself (fkrun --reference MODEL.fk)"
run 0 "the general variant" "$fkrun" --reference --fn=add -s M=2 -s N=3 --variant=general add.fkm
run 2 "no such variant" "$fkrun" --variant=wgmma add.fkm
has "$err" "no step has a variant 'wgmma'; there are: map_2048, map_2048_single, general"
run 0 "which variant ran" env FK_EMU="$FK_FAKE_EMU" "$fkrun" --device=emu --fn=add -s M=2 -s N=3 add.fkm
has "$out" "DONE add M=2 N=3 variant=map_2048_single"
run 0 "a forced one" env FK_EMU="$FK_FAKE_EMU" "$fkrun" --device=emu --variant=general -s M=2 -s N=3 add.fkm
has "$out" "DONE count"

# What the emulated device is told by its variables must be numbers.
for v in SMS=0 SMS=1e2 SEED=x SEED=-1 LIMIT=0 STATS=yes; do
    run 3 "FK_EMU_$v" env "FK_EMU_$v" "$fkrun" --device=emu --fn=add -s M=2 -s N=3 add.fkm
    has "$err" "emu: FK_EMU_$v: needs a number from "
done
run 0 "numbers" env FK_EMU_SMS=0x10 FK_EMU_SEED=7 FK_EMU_STATS=0 "$fkrun" --device=emu --check --fn=add -s M=2 -s N=3 add.fkm

# Sizes that do not suit are said so before anything is computed.
cat >sizes.fk <<'END'
fn p(x: f32[N], s: f32[N/128], z: f32[2*D], q: f32[D]) -> (y: f32[N]) { y[k] = x[k] * s[k/128] }
fn r(x: f32[N], z: f32[M]) -> (y: f32) { y = sum[i] x[i] * z[i + 3] }
END
run 0 "compile" "$fkc" --ptxas=none sizes.fk
run 2 "N is no multiple of 128" "$fkrun" --reference --fn=p -s N=100 -s D=3 sizes.fkm
has "$err" "p: line 1: N must be a multiple of 128: needs 128, found 100, with N=100 D=3"
run 2 "none can be drawn" "$fkrun" --reference --fn=p -s N=100 sizes.fkm
has "$err" "p: line 1: N must be a multiple of 128: needs 128, found 100"
has "$err" "no sizes found that suit it"
run 2 "a read outside" "$fkrun" --reference --fn=r -s N=4 -s M=5 sizes.fkm
has "$err" "r: line 2: "
has "$err" "found 5, with N=4 M=5"
run 0 "a read inside" "$fkrun" --reference --fn=r -s N=4 -s M=7 sizes.fkm
run 0 "an empty domain reads nothing" "$fkrun" --reference --fn=r -s N=0 -s M=1 sizes.fkm

# Sizes that follow from files whose dimensions are not bare.
cat >solve.fk <<'END'
fn make(u: f32[A, B]) -> (v: f32[A, B]) { v[a, b] = u[a, b] }
fn half(x: f32[T, 2*D], w: f32[D]) -> (y: f32[T, 2*D]) { y[t, d] = x[t, d] + w[d/2] }
fn pages(k: f32[B, T], tab: i32[B, T/16]) -> (y: f32[B, T]) { y[b, t] = k[b, t] * f32(tab[b, t/16]) }
END
run 0 "compile" "$fkc" --ptxas=none solve.fk
run 0 "[3, 10]" "$fkrun" --reference --fn=make -s A=3 -s B=10 -o v=v.npy solve.fkm
run 0 "[3, 7]" "$fkrun" --reference --fn=make -s A=3 -s B=7 -o v=odd.npy solve.fkm
run 0 "2*D is 10" "$fkrun" --reference --fn=half -i x=v.npy solve.fkm
has "$out" "REFERENCE half T=3 D=5"
run 0 "T/16 is 10" "$fkrun" --reference --fn=pages -i tab=v.npy solve.fkm
has "$out" "REFERENCE pages B=3 T=160"
run 2 "2*D is 7" "$fkrun" --reference --fn=half -i x=odd.npy solve.fkm
has "$err" "odd.npy: dimension 1 of x (2*D) is 7, which gives no whole D"
run 2 "--size disagrees" "$fkrun" --reference --fn=half -i x=v.npy -s D=4 solve.fkm
has "$err" "v.npy is [3, 10], but x is [3, 8] with T=3 D=4"

# What is handed to fkc must leave a module where fkrun looks for it.
for o in "--emit=ptx" "-o z.fkm" "--output=z.fkm" "--stop-after=fold" "--help"; do
    # shellcheck disable=SC2086
    run 2 "-- $o" "$fkrun" --reference add.fk -- --ptxas=none $o
    has "$err" "fkrun needs a module of fkc"
done
echo '# nothing' >none.fk
run 0 "no fn" "$fkrun" none.fk -- --ptxas=none
has "$err" "warning: none.fk: no fn here: the module is empty"
has "$err" "fkrun: note: no fn here: the module is empty"

# Variants: what is predicted, and, on a fake device whose clock FAKE_FAST sets, what is measured.
cat >mm.fk <<'END'
fn mm(x: bf16[M, K], w: bf16[N, K]) -> (y: bf16[M, N]) { y[m, n] = sum[k] x[m, k] * w[n, k] }
END
run 0 "compile" "$fkc" --ptxas=none mm.fk
fake() { env FK_EMU="$FK_FAKE_EMU" FAKE_FAST="$1" "$fkrun" --device=emu "${@:2}"; }
variant() { grep -o 'variant=[^ ]*' "$1"; }
run 0 "a list" "$fkrun" --list -s M=512 -s N=256 -s K=64 mm.fkm
has "$out" "LIST mm M=512 K=64 N=256 step=0 mm.0"
has "$out" "variant=pingpong_64x128 predicted="
has "$out" "variant=general predicted=? sm_80: not assembled"
hasnt "$out" "not for these sizes"
run 0 "of a pitch that no tensor map has" "$fkrun" --list -s M=512 -s N=256 -s K=63 mm.fkm
has "$out" "not for these sizes and layouts"
run 0 "one variant alone" "$fkrun" --list --variant=coop_128x256_2x1 --write=one.fkm mm.fkm
run 0 "is all there is" "$fkrun" --list -s M=5 -s N=6 -s K=8 one.fkm
holds "one" test "$(variant "$out")" = variant=coop_128x256_2x1
run 3 "sizes that it does not take" fake none --variant=coop_128x256_2x1 -s M=5 -s N=6 -s K=9 mm.fkm
has "$err" "no variant takes these sizes and strides"
has "$err" "; coop_128x256_2x1 needs stride(x, 0) * 16 % 128 == 0 and 0 < stride(x, 0) or extent(x, 0) == 1; stride(w, 0)"
run 3 "a place that it does not take" fake none --variant=coop_128x256_2x1 -s M=512 -s N=256 -s K=64 --offset=x=2 mm.fkm
has "$err" "; coop_128x256_2x1 needs 16 <= align(x)"
run 0 "untuned" fake coop_128x256_2x1 -s M=512 -s N=256 -s K=64 mm.fkm
before=$(variant "$out")
holds "another is predicted" test "$before" != variant=coop_128x256_2x1
run 0 "tune" fake coop_128x256_2x1 --tune --write=tuned.fkm -s M=512 -s N=256 -s K=64 mm.fkm
has "$out" "TUNE mm M=512 K=64 N=256 step=0 mm.0"
holds "the best" grep -q 'variant=coop_128x256_2x1 predicted=.* measured=500.00us best$' "$out"
holds "the chosen" grep -q "$before .* measured=1500.00us +200.0% chosen\$" "$out"
run 0 "tuned" fake none -s M=512 -s N=256 -s K=64 tuned.fkm
holds "what was fastest" test "$(variant "$out")" = variant=coop_128x256_2x1
run 0 "other sizes" fake none -s M=512 -s N=256 -s K=72 tuned.fkm
holds "as before" test "$(variant "$out")" = "$before"
run 0 "once more, another is fastest" fake pingpong_192x128_1x2 --tune --write=tuned.fkm -s M=512 -s N=256 -s K=64 tuned.fkm
run 0 "tuned" fake none -s M=512 -s N=256 -s K=64 tuned.fkm
holds "the last word" test "$(variant "$out")" = variant=pingpong_192x128_1x2
run 0 "sizes that one variant takes" fake none --tune --fn=add -s M=2 -s N=3 add.fkm
has "$out" "variant=map_2048_single predicted=2.00us measured=1500.00us best chosen"
run 2 "nothing was chosen" "$fkrun" --write=x.fkm mm.fkm
has "$err" "--write needs --variant or --tune"
run 2 "no device in a list" "$fkrun" --tune --list mm.fkm
has "$err" "--tune needs a device, --list uses none"
run 2 "nor in a reference" "$fkrun" --tune --reference mm.fkm
has "$err" "--tune needs a device, --reference uses none"
run 2 "list or run" "$fkrun" --list --reference mm.fkm
has "$err" "--list runs nothing"
run 3 "nowhere to write" "$fkrun" --list --variant=general --write=/nope/x.fkm mm.fkm
has "$err" "/nope/x.fkm"

# Many command lines on one device.
cat >cases.txt <<'END'
# a comment, an empty line

--device=emu --fn=add -s M=2 -s N=3 add.fkm
--reference   --fn=add -s M=4 -s N=6 add.fkm
--fn=sub --reference add.fkm
--cases=cases.txt
--chekc add.fkm
--device=emu --check --fn=add -s M=1 -s N=1 add.fkm
END
run 2 "cases" env FK_EMU="$FK_FAKE_EMU" "$fkrun" --cases=cases.txt
has "$out" "DONE add M=2 N=3 variant=map_2048_single"
has "$out" "CASE 3 exit 0: --device=emu --fn=add -s M=2 -s N=3 add.fkm"
has "$out" "CASE 4 exit 0: --reference   --fn=add"
has "$out" "CASE 5 exit 1: --fn=sub"
has "$err" "no fn 'sub' in the module"
has "$out" "CASE 6 exit 2: --cases=cases.txt"
has "$err" "--cases=cases.txt: within --cases"
has "$out" "CASE 7 exit 2: --chekc"
has "$out" "FAIL add M=1 N=1" # the fake computes nothing
has "$out" "CASE 8 exit 1: --device=emu --check"
grep -v CASE "$out" | sed -n '/REFERENCE/,/rms/p' | cmp -s - plain || wrong "a case prints what it prints alone"
run 2 "no module beside them" "$fkrun" --cases=cases.txt add.fkm
has "$err" "--cases=cases.txt: its lines name the modules"
run 3 "no such file of cases" "$fkrun" --cases=nowhere.txt
has "$err" "cannot read nowhere.txt"
cat >slow.txt <<'END'
--reference --fn=add -s M=4 -s N=6 add.fkm
--reference --fn=slow -s M=2000 slow.fkm
--reference --fn=add -s M=4 -s N=6 add.fkm
END
echo 'fn slow(x: f32[M, M]) -> (y: f32[M, M]) { y[m, n] = sum[a, b] x[m, a] * x[b, n] }' >slow.fk
run 0 "compile" "$fkc" --ptxas=none slow.fk
run 124 "one that takes too long" "$fkrun" --cases=slow.txt --case-seconds=1
has "$out" "CASE 1 exit 0: "
has "$out" "CASE 2 exit 124: --reference --fn=slow"
hasnt "$out" "CASE 3"
sed -n 3,4p cases.txt >broken.txt
sed -n 3p cases.txt >>broken.txt
run 3 "one that breaks the device" env FK_EMU="$FK_FAKE_EMU" FAKE_EMU=fatal "$fkrun" --cases=broken.txt
has "$err" "fake: launch refused"
has "$out" "CASE 1 exit 3: --device=emu"
has "$err" "the device is broken after line 1; the rest is left"
hasnt "$out" "CASE 2"

if [ -e /dev/nvidia0 ]; then
    run 0 "on the GPU" "$fkrun" --check --repeat=3 --check-seconds=5 add.fkm
    has "$out" "PASS add"
    has "$out" "variant=general"
    has "$out" "PASS count"
    run 0 "cases on the GPU" sh -c "echo '--check --fn=add add.fkm' >gpu.txt; '$fkrun' --cases=gpu.txt"
    has "$out" "CASE 1 exit 0: --check"
    run 0 "layouts on the GPU" "$fkrun" --check --fn=add -s M=40 -s N=60 --offset x=4 --pad x=3 --transpose y --scalars=device add.fkm
    run 0 "time" "$fkrun" --bench --fn=add -s M=256 -s N=256 add.fkm
    has "$out" "BENCH add"
    run 0 "tune" "$fkrun" --tune -s M=512 -s N=256 -s K=64 mm.fkm
    has "$out" "best"
else
    run 3 "no GPU" "$fkrun" --check --device=cuda add.fkm
    has "$err" "fkrun: error: "
    run 3 "no GPU to tune on" "$fkrun" --tune --write=x.fkm mm.fkm
    has "$err" "fkrun: error: "
    holds "no module" test ! -e x.fkm
fi
ends
