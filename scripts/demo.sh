#!/usr/bin/env bash
# From a fresh checkout to a checked kernel: sets up, builds, compiles an example, runs the module
# and checks it against the reference, shows its report and PTX. It runs on the GPU if there is one,
# else on the emulated device, which executes the same PTX on the CPU; a line says which.
#
#   scripts/demo.sh                sets up and builds first
#   scripts/demo.sh --built DIR    with what is built in DIR
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf '\n==> %s\n' "$*"; }

if [ "${1-}" = --built ]; then
    build=$2
else
    build=build
    scripts/setup.sh
    say "building ($build/)"
    cmake --preset release >/dev/null
    cmake --build --preset release --parallel "$(nproc)" --target fkc fkrun -- --quiet
fi

example=examples/linear_gelu.fk sizes=(-s M=200 -s N=120 -s K=304)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
module=$build/linear_gelu.fkm
say "$example"
cat $example
say "$build/fkc $example -o $module"
"$build/fkc" $example -o "$module"
ls -l "$module"

say "$build/fkrun --check ${sizes[*]} $module"
code=0
"$build/fkrun" --check "${sizes[@]}" "$module" 2>"$work/why" || code=$?
if [ $code = 3 ] && grep -qE 'FK_ERROR_(DRIVER_MISSING|DRIVER_TOO_OLD|NO_DEVICE)' "$work/why"; then
    sed 's/^fkrun: error: /    no GPU: /' "$work/why"
    say "on the emulated device: $build/fkrun --device=emu --check ${sizes[*]} $module"
    code=0
    "$build/fkrun" --device=emu --check "${sizes[@]}" "$module" || code=$?
else
    cat "$work/why" >&2
    [ $code != 0 ] || echo "    on the GPU"
fi
[ $code = 0 ] || exit $code

say "$build/fkc --emit=report $example"
"$build/fkc" --emit=report $example
say "$build/fkc --emit=ptx $example  (its beginning)"
"$build/fkc" --emit=ptx $example -o "$work/linear_gelu.ptx"
head -n 40 "$work/linear_gelu.ptx"
