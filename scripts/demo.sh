#!/usr/bin/env bash
# From a fresh checkout to a checked kernel: sets up, builds, compiles an example, shows its report,
# runs it on the GPU and checks it against the reference. Without a GPU it says so and shows what the
# reference computes.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf '\n==> %s\n' "$*"; }

scripts/setup.sh
say "building (build/)"
cmake --preset release >/dev/null
cmake --build --preset release --parallel "$(nproc)" --target fkc fkrun -- --quiet

example=examples/linear_gelu.fk sizes=(-s M=200 -s N=120 -s K=300)
say "$example"
cat $example
say "build/fkc $example -o build/linear_gelu.fkm"
build/fkc $example -o build/linear_gelu.fkm
ls -l build/linear_gelu.fkm
say "build/fkc --emit=report $example"
build/fkc --emit=report $example
say "build/fkc --emit=ptx $example  (its beginning)"
build/fkc --emit=ptx $example -o build/linear_gelu.ptx
head -40 build/linear_gelu.ptx

say "build/fkrun --check ${sizes[*]} build/linear_gelu.fkm"
code=0
build/fkrun --check "${sizes[@]}" build/linear_gelu.fkm || code=$?
if [ $code = 3 ]; then
    echo "    The kernel could not be run on a GPU here, for the reason above."
    if build/fkrun --device=emu --check "${sizes[@]}" build/linear_gelu.fkm 2>/dev/null; then
        echo "    It was run on the emulated device instead."
    fi
    say "what the reference computes: build/fkrun --reference ${sizes[*]} build/linear_gelu.fkm"
    build/fkrun --reference "${sizes[@]}" build/linear_gelu.fkm
    code=0
fi
exit $code
