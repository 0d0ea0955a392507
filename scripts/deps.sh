#!/usr/bin/env bash
# The promises of HACKING.md that a script can keep. Fails on
#   an include against the arrows between folders, or of another folder's private header
#   a hand-written file over 800 lines (the grammar is exempt; generated files are not in the tree)
#   an op, a reduction, a pass or an option that no test names
#   free() in passes/ (arenas own everything there)
#   a path that exists only where the project is developed
# Prints every fault, with the longest file at the end.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
bad=0
fault() { echo "deps: $*"; bad=1; }

mapfile -t files < <(git ls-files --cached --others --exclude-standard | while read -r f; do
    [ -f "$f" ] && echo "$f"
done)
sources() { printf '%s\n' "${files[@]}" | grep -E '\.(c|h|y|l|def)$'; }

# --- arrows: who may include whom (a folder may always include itself) ---------------------------
allowed() { # FILE -> the folders it may include
    case $1 in
    ir/* | runtime/*) echo "" ;;
    frontend/* | passes/* | backend/*) echo "ir" ;;
    compiler/*) echo "ir frontend passes backend runtime" ;;
    tests/* | examples/*) echo "ir frontend passes backend runtime compiler" ;;
    esac
}
includes=$(sources | xargs grep -HE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' |
    sed -E 's/^([^:]+):[^"]*"([^"]+)".*/\1 \2/')
while read -r file header; do
    to=${header%%/*}
    from=${file%%/*}
    [[ $header == */* && -d $to ]] || continue # generated, or beside the file
    if [ "$from" != "$to" ] && ! [[ " $(allowed "$file") " == *" $to "* ]]; then
        fault "$file includes $header: $from may not see $to"
    fi
    # Private headers, and the inside of a folder, are the folder's own. ir is open to all above
    # it (ir/ir.h names its parts); a unit test sees the folder it tests.
    [ "$from" = "$to" ] && continue
    case $file in tests/unit/* | tests/fuzz/* | tests/programs/* | tests/compiler/* | tests/passes/* | tests/code/*) continue ;; esac
    case $header in
    *_int.h) fault "$file includes $header: private to $to" ;;
    ir/*.h | ir/*.def) ;;
    frontend/frontend.h | passes/passes.h | passes/pass.def | backend/backend.h) ;;
    runtime/fk.h | runtime/fkm.h | runtime/*.def | compiler/fkc.h) ;;
    *) fault "$file includes $header: not a public header of $to" ;;
    esac
done <<<"$includes"

# --- length -------------------------------------------------------------------------------------
longest=$(sources | grep -vE '\.(y|l)$' | xargs wc -l | grep -v ' total$' | sort -rn)
while read -r n f; do
    [ "$n" -le 800 ] || fault "$f has $n lines; the limit is 800"
done <<<"$longest"

# --- every row of the tables is named by a test -------------------------------------------------
tests=$(printf '%s\n' "${files[@]}" | grep -E '^tests/.*\.(c|h|sh|fk|fkg|txt|test|golden|ast|fkt)$')
words=$(echo "$tests" | xargs cat | grep -aoE '[A-Za-z_][A-Za-z0-9_]*' | sort -u)
options=$(echo "$tests" | xargs cat | grep -aoE -e '--[a-z][a-z-]*' | sort -u)
rows() { grep -oE "^$2\([a-z0-9_]+" "$1" 2>/dev/null | sed "s/^$2(//"; }
named() { grep -qxF -e "$2" <<<"$1"; }
for op in $(rows ir/op.def OP); do named "$words" "$op" || fault "op $op: no test names it"; done
for r in $(rows ir/reduce.def REDUCE); do
    named "$words" "$r" || fault "reduction $r: no test names it"
done
for p in $(rows passes/pass.def PASS); do
    named "$words" "$p" || fault "pass $p: no test names it"
done
while read -r o; do
    named "$options" "--$o" || fault "option --$o: no test names it"
done < <(sed -nE 's/^OPT\([A-Z]+, *[a-z_]+, *"([a-z-]+)".*/\1/p' compiler/*opts.def)

# --- habits -------------------------------------------------------------------------------------
while read -r hit; do fault "free() in passes/: $hit"; done < <(
    printf '%s\n' "${files[@]}" | grep -E '^passes/.*\.c$' | xargs -r grep -nE '\bfree\(')
while read -r hit; do fault "path of one machine: $hit"; done < <(
    printf '%s\n' "${files[@]}" | grep -v '^scripts/deps\.sh$' |
        xargs grep -nIE '\.\./shared|/work/(main|wt|shared)' | cut -c1-120)

echo "deps: longest file:$(head -1 <<<"$longest" | sed 's/^ */ /')"
[ $bad = 0 ] && echo "deps: all promises kept"
exit $bad
