#!/usr/bin/env bash
# Every output, where it goes, and that it is always the same bytes and never half a file.
# shellcheck disable=SC2086
. "$(dirname "$0")/lib.sh"

run 0 "the module is named after the source" "$fkc" $quick model.fk
holds "model.fkm" test -s model.fkm
mkdir -p deep/down && cp model.fk deep/down/
rm model.fkm
run 0 "and stands in the current folder" "$fkc" $quick deep/down/model.fk
holds "model.fkm" test -s model.fkm
holds "not beside the source" test ! -e deep/down/model.fkm

for kind in ast graph tile schedule llvm ptx report; do
    run 0 "--emit=$kind" "$fkc" $quick --emit=$kind model.fk
    holds "$kind is not empty" test -s "$out"
    cp "$out" first
    run 0 "--emit=$kind again" "$fkc" $quick --emit=$kind -o second model.fk
    holds "$kind: the same bytes" cmp -s first second
done
run 0 "ast reads back" "$fkc" --emit=ast -o printed.fk model.fk
run 0 "ast of the ast" "$fkc" --emit=ast -o twice.fk printed.fk
holds "the same text" cmp -s printed.fk twice.fk
run 0 "ptx" "$fkc" --emit=ptx model.fk
has "$out" "// linear_gelu.0 of model.fk"
has "$out" "// grid    min("
has "$out" "// block   "
has "$out" "// shared  "
has "$out" "pointer  x: bf16[M, K]"
has "$out" ".visible .entry"
run 0 "two texts" "$fkc" $quick --emit=graph,ptx model.fk
has "$out" "# ==== graph"
has "$out" "# ==== ptx"

# Options that change the program change the module; the same options give the same module.
run 0 "bytes" "$fkc" --ptxas=none model.fk -o a.fkm
run 0 "bytes again, elsewhere" env HOME=/nonexistent "$fkc" --ptxas=none deep/down/model.fk -o b.fkm
holds "identical" cmp -s a.fkm b.fkm
run 0 "bytes" "$fkc" $quick model.fk -o a.fkm
run 0 "bytes again, elsewhere" env HOME=/nonexistent "$fkc" $quick deep/down/model.fk -o b.fkm
holds "identical" cmp -s a.fkm b.fkm
run 0 "--bind" "$fkc" $quick --bind K=64 model.fk -o c.fkm
holds "another module" test "$(cmp -s a.fkm c.fkm; echo $?)" = 1
sed 's/+ b\[n\]/- b[n]/' model.fk >edited.fk
run 0 "an edited program" "$fkc" $quick edited.fk -o d.fkm
holds "another module" test "$(cmp -s a.fkm d.fkm; echo $?)" = 1
run 0 "--strip" "$fkc" $quick --strip model.fk -o e.fkm
holds "a smaller module" test "$(stat -c %s e.fkm)" -lt "$(stat -c %s a.fkm)"
for o in --strict --invariant --no-fuse --ptx-version=8.0 --arch=sm_80,sm_90a; do
    run 0 "$o" "$fkc" --ptxas=none $o --no-expect model.fk -o f.fkm
done

run 0 "standard output" "$fkc" $quick model.fk -o -
holds "the module" cmp -s a.fkm "$out"
run 0 "standard input" sh -c "cat model.fk | '$fkc' $quick --emit=graph -"
has "$out" "graph linear_gelu"
run 0 "to /dev/null" "$fkc" $quick model.fk -o /dev/null
holds "which stays a device" test -c /dev/null

# What cannot be written.
run 3 "no such folder" "$fkc" $quick model.fk -o nowhere/x.fkm
has "$err" "cannot write nowhere/x.fkm: No such file or directory"
run 3 "onto a folder" "$fkc" $quick model.fk -o deep
has "$err" "cannot write deep: Is a directory"
if [ -c /dev/full ]; then
    run 3 "a full disk" "$fkc" $quick model.fk -o /dev/full
    has "$err" "cannot write /dev/full: No space left on device"
fi
holds "no temporary files" test -z "$(find . -name '*.fkm.??????')"

# Published by rename: an old module is whole until the new one is, and a failure leaves it.
cp a.fkm keep.fkm
ln keep.fkm link.fkm
run 0 "over an old file" "$fkc" $quick edited.fk -o keep.fkm
holds "the old bytes live on in the link" cmp -s a.fkm link.fkm
holds "the new are there" cmp -s d.fkm keep.fkm
echo 'fn' >broken.fk
run 1 "a failure" "$fkc" $quick broken.fk -o keep.fkm
holds "leaves the file" cmp -s d.fkm keep.fkm
umask 027
run 0 "modes follow umask" "$fkc" $quick model.fk -o mode.fkm
holds "640" test "$(stat -c %a mode.fkm)" = 640

# Looking inside.
run 0 "stop after" "$fkc" --stop-after=fold model.fk
has "$out" "graph linear_gelu"
run 0 "dump one" "$fkc" $quick --dump-after=contract model.fk -o x.fkm
has "$err" "# after contract"
hasnt "$err" "# after fold"
run 0 "dump all" "$fkc" $quick --dump-after=all model.fk -o x.fkm
has "$err" "# after fold"
has "$err" "(unchanged)"
run 0 "times" "$fkc" $quick --time-passes model.fk -o x.fkm
has "$err" " ms  fold "
has "$err" " ms  lower "
run 0 "verbose" "$fkc" $quick --verbose model.fk -o x.fkm
has "$err" "fkc: wrote x.fkm, "
"$fkc" --stop-after=cse model.fk >graph.fkg
run 0 "a pass on a graph" "$fkc" --run-pass=dce graph.fkg
holds "nothing is dead" cmp -s graph.fkg "$out"
run 2 "a graph needs a pass" "$fkc" graph.fkg
has "$err" "say which --run-pass=PASS"
echo 'graph' >bad.fkg
run 1 "no graph" "$fkc" --run-pass=dce bad.fkg
has "$err" "bad.fkg:2:1: error: expected a name"
ends
