#!/usr/bin/env bash
# Options, lists and exit codes of fkc.
. "$(dirname "$0")/lib.sh"

run 0 "help" "$fkc" --help
has "$out" "usage: fkc [options] INPUT.fk"
for o in output emit strip arch ptxas ptx-version bind no-fuse strict invariant fast-accum no-expect \
    dump-after stop-after run-pass time-passes verbose color error-limit help help-ops list-passes \
    list-archs version; do
    has "$out" "--$o"
done
run 0 "version" "$fkc" --version
has "$out" "fkc "
has "$out" "LLVM 19."
run 0 "ops" "$fkc" --help-ops
has "$out" "a + b"
has "$out" "sum of the elements; 0 when empty"
run 0 "passes" "$fkc" --list-passes
has "$out" "contract"
run 0 "archs" "$fkc" --list-archs
has "$out" "sm_90a"

run 2 "unknown option" "$fkc" --emti=ptx model.fk
has "$err" "fkc: error: unknown option '--emti=ptx'; did you mean '--emit'?"
run 2 "unknown text" "$fkc" --emit=ptxx model.fk
has "$err" "did you mean 'ptx'?"
run 2 "no input" "$fkc"
has "$err" "no input; fkc --help shows how"
run 2 "two inputs" "$fkc" model.fk other.fk
has "$err" "'other.fk' is a second"
run 2 "unknown chip" "$fkc" --arch=sm_90b model.fk
has "$err" "unknown chip 'sm_90b' (fkc --list-archs); did you mean 'sm_90a'?"
run 2 "unknown pass" "$fkc" --stop-after=contarct model.fk
has "$err" "did you mean 'contract'?"
run 2 "unknown pass to dump" "$fkc" --dump-after=nothing model.fk
has "$err" "unknown pass 'nothing'"
run 2 "PTX version" "$fkc" --ptx-version=eight model.fk
has "$err" "--ptx-version=eight: needs one from 7.0 to 8.5"
run 2 "one from the future" "$fkc" --ptx-version=9.9 model.fk
has "$err" "--ptx-version=9.9: needs one from 7.0 to 8.5"
run 2 "too old" "$fkc" --ptx-version=6.5 model.fk
has "$err" "--ptx-version=6.5: needs one from 7.0 to 8.5"
run 2 "cubin with another" "$fkc" --emit=cubin,ptx model.fk -o x
has "$err" "--emit=cubin goes alone"
run 2 "cubin to where" "$fkc" --emit=cubin model.fk
has "$err" "--emit=cubin needs -o FILE"
run 2 "a pass on a program" "$fkc" --run-pass=fold model.fk
has "$err" "--run-pass needs a graph as text"
run 2 "a number" "$fkc" --error-limit=many model.fk
has "$err" "--error-limit=many: needs a number"

for b in M M=x M=1.5.2 =1 M=-1 Q=1; do
    run 2 "--bind=$b" "$fkc" --ptxas=none --bind=$b model.fk -o x.fkm
    has "$err" "--bind"
done
run 2 "bound twice" "$fkc" --ptxas=none --bind=M=1 --bind=M=2 model.fk -o x.fkm
has "$err" "--bind M=2: 'M' is bound already, by --bind M=1"
run 1 "bytes beyond 64 bits" "$fkc" --ptxas=none --bind=M=9223372036854775807 model.fk -o x.fkm
has "$err" "linear_gelu: the bytes of x do not fit 64 bits with these sizes"
run 1 "their sum is" "$fkc" --ptxas=none --bind=M=2147483648 --bind=K=2147483647 \
    --bind=N=2147483647 --emit=report model.fk
has "$err" "linear_gelu: the bytes that it moves and keeps do not fit 64 bits with these sizes"
holds "nothing was published" test ! -e x.fkm
echo '# nothing' >none.fk
run 0 "no fn" "$fkc" none.fk
has "$err" "warning: none.fk: no fn here: the module is empty"
holds "a module all the same" test -s none.fkm
run 0 "help says where - goes" "$fkc" --help
has "$out" "its module goes to standard output"

# Sums of fp8 products leave the tensor core every 128, unless it may keep them.
cp "$root"/tests/bench/gemm_fp8.fk fp8.fk
run 0 "promotion" "$fkc" --emit=schedule fp8.fk
has "$out" "promote 128"
run 0 "none with --fast-accum" "$fkc" --fast-accum --emit=schedule fp8.fk
hasnt "$out" "promote"
has "$out" "mul wgmma"

# No memory is the outside world's.
if [ -z "${SANITIZED:-}" ]; then
    head -c 100000000 /dev/zero >large.fk
    run 3 "out of memory" sh -c "ulimit -v 200000; '$fkc' large.fk"
    has "$err" "error: out of memory"
    hasnt "$err" "bug"
    rm large.fk
fi

run 3 "missing file" "$fkc" missing.fk
has "$err" "fkc: error: cannot read missing.fk: No such file or directory"
mkdir folder
run 3 "a directory" "$fkc" folder
has "$err" "cannot read folder: it is a directory"

echo 'fn f(x: f32[M]) -> (y: f32[M]) { y[m] = z[m] }' >wrong.fk
run 1 "a wrong program" "$fkc" wrong.fk
has "$err" "wrong.fk:1:"
has "$err" "error:"
holds "nothing was published" test ! -e wrong.fkm

# A bug of ours, here an abort from outside, is 70 and shows the command line.
mkfifo pipe
"$fkc" --emit=ptx - <pipe >"$out" 2>"$err" &
pid=$!
exec 9>pipe
sleep 0.3
kill -ABRT $pid
wait $pid
code=$?
exec 9>&-
holds "abort is 70" test $code = 70
has "$err" "this is a bug in fkc, not in your program"
has "$err" "--emit=ptx -"
ends
