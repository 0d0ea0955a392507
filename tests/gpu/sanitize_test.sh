#!/usr/bin/env bash
# sanitize.sh without a GPU: what it makes of what a sanitizer (a script here) says.
. "$(dirname "$0")/../cli/lib.sh"
cat > fkrun.sh <<'END'
#!/bin/bash
printf '%s\n' "LIST f step=0" "  variant=coop_128x256 predicted=1us sm_90a: registers=168" \
    "  variant=direct_128x256 predicted=1us" "  variant=coop_256x128 predicted=1us" "  variant=wide predicted=1us not for these sizes and layouts" \
    "  variant=general predicted=?"
END
cat > tool.sh <<'END'
#!/bin/bash
echo "========= COMPUTE-SANITIZER"
case "$SAYS $*" in
unsupported*) echo "========= Error: Target application failed: Device not supported"; exit 1 ;;
memory*memcheck*bias_gelu*direct*)
    printf '%s\n' "========= Invalid __global__ read of size 2 bytes" "=========     at f+0x10" "PASS f" "========= ERROR SUMMARY: 1 error"
    exit 9 ;;
race*racecheck*coop*)
    printf '%s\n' "PASS f" "========= Error: Race reported between Write access at f_coop+0x10 and Read access at f_coop+0x20 [8 hazards]" \
        "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"
    exit 9 ;;
wrong*synccheck*orders*) echo "FAIL f"; echo "========= ERROR SUMMARY: 0 errors"; exit 1 ;;
*racecheck*) printf '%s\n' "PASS f" "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)" ;;
*) printf '%s\n' "PASS f" "========= ERROR SUMMARY: 0 errors" ;;
esac
END
chmod +x fkrun.sh tool.sh
cp "$root/tests/gpu/races.txt" races.txt
sanitize() { env SAYS="$1" SANITIZER="$work/tool.sh" FKRUN="$work/fkrun.sh" RACES="$work/races.txt" \
    SANITIZE_LOG="$work/log" bash "$root/tests/gpu/sanitize.sh" 4 "${@:2}"; }
all=$((10 + 2 * (3 + 6 * 3 + 3 + 13 * 2) + 3)) # a program; a variant twice, there are three and none that splits or is plain; a race
run 0 "all clean" sanitize nothing
has "$out" "$all clean, 0 failed, 0 not run"
has "$out" "clean synccheck bias_gelu:coop_128x256"
has "$out" "clean racecheck bias_gelu:direct_128x256"
hasnt "$out" "wide"
run 0 "some" sanitize nothing 60 '(mha|dims):'
has "$out" "8 clean, 0 failed, 0 not run"
run 1 "an access outside" sanitize memory
has "$out" "FAIL (9) memcheck bias_gelu:direct_128x256: "
has "$out" "--variant direct_128x256"
has "$out" "1 ========= Invalid __global__ read of size 2 bytes"
has "$out" "$((all - 1)) clean, 1 failed, 0 not run"
has log "=========     at f+0x10"
run 1 "a race" sanitize race
has "$out" "FAIL (9) racecheck bias_gelu:coop_128x256: "
has "$out" "Race reported between Write access at f_coop+0x10"
echo 'Race reported .* f_coop\+0x10 .*   the slab is written by the threads that read it' >> races.txt
run 0 "that is explained" sanitize race
has "$out" "clean racecheck bias_gelu:coop_128x256, with reports that races.txt explains"
has log "8 hazards"
echo 'Race reported .* another   no' > races.txt
run 1 "another is" sanitize race
run 1 "wrong values" sanitize wrong
has "$out" "FAIL (1) synccheck tn:coop_128x256"
run 1 "no time" sanitize nothing 0
has "$out" "0 clean, 0 failed, $all not run"
run 1 "a machine where it does not work" sanitize unsupported
has "$out" "compute-sanitizer does not work on this machine: nothing was run"
has "$out" "0 clean, 0 failed, $all not run"
ends
