#!/usr/bin/env bash
# On a machine with a GPU, after tests/gpu/pack.sh: ten programs under compute-sanitizer memcheck.
# The last line is "N passed, N failed".
set -u
cd "$(dirname "$0")/../.." || exit 1
tool=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
pass=0 fail=0
for name in 01_rowcol_two_out 05_attn_packed_qkv 12_rope_attn 18_ce_ignore 21_w4a16_group \
    29_quant_rows 43_written_range lang_09_paged types gathers; do
    out=$("$tool" --tool memcheck --error-exitcode 9 build-gpu/fkrun --check --seed 3 \
        --check-seconds 2 build-gpu/modules/$name.fkm 2>&1)
    if [ $? -eq 0 ] && grep -q 'ERROR SUMMARY: 0 errors' <<< "$out"; then
        pass=$((pass + 1))
        echo "clean $name"
    else
        fail=$((fail + 1))
        echo "FAIL $name"
        tail -n 15 <<< "$out"
    fi
done
echo "$pass passed, $fail failed"
[ $fail -eq 0 ]
