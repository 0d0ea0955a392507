# lib.sh - sourced by the scripts here: a temporary folder, and checks that count.
#   run CODE NAME COMMAND...   runs it; its output is in $out and $err (files), its code must be CODE
#   has FILE TEXT / hasnt      the file has the text, in one line
#   ends                       prints the count; fails if a check failed
set -u
fkc=$FKC fkrun=${FKRUN:-} here=$(cd "$(dirname "$0")" && pwd) root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
out=$work/stdout err=$work/stderr checks=0 failures=0 case=
unset NO_COLOR FKC_PTXAS CUDA_HOME
cp "$root"/examples/linear_gelu.fk model.fk
# Where the files matter and not what is compiled: the general kernel alone takes a 20th of the time.
quick="--ptxas=none --arch=sm_80"

wrong() {
    failures=$((failures + 1))
    echo "WRONG: $case: $*"
    echo "  stdout:"; head -c 2000 "$out" | sed 's/^/    /'
    echo "  stderr:"; head -c 2000 "$err" | sed 's/^/    /'
}
run() {
    local code=$1
    case=$2
    shift 2
    "$@" >"$out" 2>"$err" </dev/null
    local got=$?
    checks=$((checks + 1))
    [ $got = "$code" ] || wrong "exit code $got, not $code"
}
has() { checks=$((checks + 1)); grep -qF -e "$2" "$1" || wrong "no '$2' in $(basename "$1")"; }
hasnt() { checks=$((checks + 1)); ! grep -qF -e "$2" "$1" || wrong "'$2' in $(basename "$1")"; }
holds() { checks=$((checks + 1)); case=$1; shift; "$@" || wrong "$*"; }
ends() {
    echo "$checks checks, $failures failed"
    [ $failures = 0 ]
}
