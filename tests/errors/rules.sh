#!/bin/sh
# Every rule that the front end reports has a test of its name: rules.sh ROOT
cd "$1" || exit 2
missing=0
for rule in $(cat frontend/*.c | tr '\n' ' ' |
    grep -oE '(diag_error|diag_warn|build_error)\([^"]*"[a-z0-9-]+",' |
    grep -oE '"[a-z0-9-]+"' | tr -d '"' | sort -u); do
    find tests/errors -maxdepth 1 -name "$rule.fk" -o -maxdepth 1 -name "$rule.*.fk" | grep -q . &&
        continue
    grep -q "\"$rule\"" tests/frontend/*.c && continue
    echo "no test of the rule '$rule'"
    missing=1
done
exit $missing
