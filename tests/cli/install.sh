#!/usr/bin/env bash
# Installs into a fresh prefix, moves it, and builds the example against it: by CMake, by pkg-config,
# and statically. The programs must link and start; without a GPU they say so and end with 3.
set -eu
build=$1 root=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/fkc"
export PKG_CONFIG_PATH=""
PKG_CONFIG_PATH=$(dirname "$(find "$work/fkc" -name fk.pc)")
lib=$(dirname "$PKG_CONFIG_PATH")

"$work/fkc/bin/fkc" --version
"$work/fkc/bin/fkc" "$root/examples/linear_gelu.fk" -o "$work/linear_gelu.fkm"

"$work/fkc/bin/fkrun" --device=emu --check -s M=40 -s N=24 -s K=64 "$work/linear_gelu.fkm"

starts() { # PROGRAM: runs to the end on a GPU, or says that there is none
    local code=0
    LD_LIBRARY_PATH=$lib "$1" "$work/linear_gelu.fkm" >"$work/said" 2>&1 || code=$?
    cat "$work/said"
    if [ -e /dev/nvidia0 ]; then [ $code = 0 ]; else [ $code = 3 ] && grep -q fk_device_open "$work/said"; fi
}

cp -r "$root/examples" "$work/examples" # out of the tree: nothing of it may be needed
cmake -G Ninja -S "$work/examples" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/fkc" >/dev/null
cmake --build "$work/build"
test -s "$work/build/linear_gelu.fkm"
starts "$work/build/host"

# shellcheck disable=SC2046
cc "$work/examples/host.c" -o "$work/shared" $(pkg-config --cflags --libs fk) -lm
starts "$work/shared"
# shellcheck disable=SC2046
cc "$work/examples/host.c" -o "$work/static" $(pkg-config --cflags fk) "$lib/libfk.a" -ldl -lpthread -lm
starts "$work/static"

# The compiler as a library.
cat >"$work/lib.c" <<'END'
#include <fkc.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    const char *text = "fn f(x: f32[M]) -> (y: f32[M]) { y[m] = x[m] + 1 }";
    fkc_options o = fkc_defaults();
    fkc_result *r;
    size_t n;
    o.ptxas = "none";
    fkc_status s = fkc_compile("f.fk", text, strlen(text), &o, &r);
    fputs(fkc_messages(r), stderr);
    int ok = s == FKC_OK && fkc_output_get(r, FKC_MODULE, &n) && n > 100;
    printf("libfkc %s: %s\n", fkc_version(), ok ? "made a module" : "failed");
    fkc_free(r);
    return !ok;
}
END
# shellcheck disable=SC2046
cc "$work/lib.c" -o "$work/lib" $(pkg-config --cflags --libs fkc)
LD_LIBRARY_PATH=$lib "$work/lib"
nm -D --defined-only "$lib/libfkc.so" | awk '{ print $3 }' | grep -v '^fkc_' >"$work/extra" || true
if [ -s "$work/extra" ]; then
    echo "libfkc.so shows more than fkc.h:"
    head "$work/extra"
    exit 1
fi
