#!/usr/bin/env bash
# Colour only where it is wanted; as many errors as were asked for; warnings do not fail.
. "$(dirname "$0")/lib.sh"
esc=$(printf '\033')
{
    echo 'fn f(x: f32[M]) -> (y: f32[M]) {'
    for i in $(seq 30); do echo "    a$i[m] = nosuch$i[m]"; done
    echo '    y[m] = x[m]'
    echo '}'
} >many.fk

run 1 "no terminal, no colour" "$fkc" many.fk
hasnt "$err" "$esc"
run 1 "always" "$fkc" --color=always many.fk
has "$err" "$esc[1;31m"
run 1 "never" "$fkc" --color=never many.fk
hasnt "$err" "$esc"

# script(1) gives a terminal; what it prints is both streams.
if command -v script >/dev/null; then
    on_terminal() { script -qec "$*" /dev/null; }
    export TERM=xterm
    run 1 "a terminal" on_terminal "$fkc" many.fk
    has "$out" "$esc["
    run 1 "NO_COLOR" on_terminal env NO_COLOR=1 "$fkc" many.fk
    hasnt "$out" "$esc["
    run 1 "TERM=dumb" on_terminal env TERM=dumb "$fkc" many.fk
    hasnt "$out" "$esc["
    run 3 "binary to a terminal" on_terminal "$fkc" model.fk --ptxas=none -o -
    has "$out" "will not write binary to a terminal"
else
    echo "no script(1): the checks on a terminal were left out"
fi

run 1 "20 errors by default" "$fkc" many.fk
holds "20 shown" test "$(grep -c ' error: ' "$err")" = 20
has "$err" "10 more errors not shown"
run 1 "a limit" "$fkc" --error-limit=3 many.fk
holds "3 shown" test "$(grep -c ' error: ' "$err")" = 3
run 1 "no limit" "$fkc" --error-limit=0 many.fk
holds "30 shown" test "$(grep -c ' error: ' "$err")" = 30

cat >expect.fk <<'END'
fn f(x: f32[M]) -> (y: f32[M])
expect { kernels == 7 }
{
    y[m] = x[m] + 1
}
END
run 1 "a failed expect" "$fkc" --ptxas=none expect.fk
has "$err" "expect.fk:2:10: error: f: expected kernels == 7, found 1"
has "$err" "note: with --no-expect this is a warning"
run 1 "the report is there all the same" "$fkc" --ptxas=none --emit=report expect.fk
has "$out" "kernels == 7         failed, found 1"
run 0 "--no-expect" "$fkc" --ptxas=none --no-expect expect.fk
has "$err" "expect.fk:2:10: warning: f: expected kernels == 7, found 1"

cat >grad.fk <<'END'
fn f(x: f32[M]) -> (y: f32[M]) { y[m] = x[m] * x[m] }
grad g = d f / d (x)
END
run 0 "grad is a warning" "$fkc" --ptxas=none grad.fk
has "$err" "warning:"
holds "a module was made" test -s grad.fkm
if [ -n "$fkrun" ]; then
    run 1 "asking for it is an error" "$fkrun" --fn g grad.fkm --reference
    has "$err" "fn 'g' was left out"
fi
ends
