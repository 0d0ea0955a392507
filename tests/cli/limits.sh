#!/usr/bin/env bash
# Large programs: what a module holds is compiled; what it does not hold is the user's to know, with
# the number needed and the number allowed.
. "$(dirname "$0")/lib.sh"

tensors() { # statements of 500 terms, for the nesting has its own limit
    local inputs="" body="a0[n] = 0.0"
    for i in $(seq "$(($1 - 1))"); do inputs+="x$i: f32[N],"; ((i % 500)) && body+=" + x$i[n]" || body+=$'\n'"a$((i/500))[n] = a$((i/500-1))[n] + x$i[n]"; done
    echo "fn many(${inputs%,}) -> (y: f32[N]) {"; echo "$body"; echo "y[n] = a$((($1 - 1)/500))[n] }"
}
sizes() {
    local inputs="" sum=""
    for i in $(seq "$1"); do inputs+="x$i: f32[N$i],"; sum+="x$i[0] + "; done
    echo "fn sized(${inputs%,}) -> (y: f32) { y = ${sum% + } }"
}
dims() { # tensors of 8 dimensions each
    local inputs="" sum=""
    for i in $(seq "$1"); do inputs+="x$i: f32[A,B,C,D,E,F,G,H],"; sum+="x$i[a,b,c,d,e,f,g,h] + "; done
    echo "fn wide(${inputs%,}) -> (y: f32[A,B,C,D,E,F,G,H]) { y[a,b,c,d,e,f,g,h] = ${sum% + } }"
}
deep() { # one dimension, so many quotients deep
    local d=N
    for i in $(seq "$1"); do d="(100 + N/($d + 3))"; done
    echo "fn deep(x: f32[N], z: f32[$d]) -> (y: f32[N]) { y[n] = x[n] + z[0] }"
}

tensors 1024 >t.fk
run 0 "1024 tensors, thousands of parameters" "$fkc" --ptxas=none t.fk
run 0 "evaluated" "$fkrun" --reference -s N=3 t.fkm
tensors 1025 >t.fk
run 1 "1025 tensors" "$fkc" --ptxas=none t.fk
has "$err" "t.fk:1:4: error: many: it needs 1025 tensors, a module holds 1024"
hasnt "$err" "internal error"
sizes 300 >s.fk
run 0 "300 sizes" "$fkc" --ptxas=none s.fk
dims 110 >d.fk
run 0 "888 dimensions" "$fkc" --ptxas=none d.fk
deep 100 >e.fk
run 0 "104 levels" "$fkc" --ptxas=none e.fk
deep 200 >e.fk
run 1 "204 levels" "$fkc" --ptxas=none e.fk
has "$err" "e.fk:1:4: error: deep: it needs 204 levels in an expression of sizes, a module holds 128"
ends
