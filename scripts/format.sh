#!/usr/bin/env bash
# Formats every hand-written C file in place; with --check, lists those that differ and fails.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.c' '*.h')
[ ${#files[@]} -gt 0 ] || exit 0
if [ "${1:-}" != --check ]; then
    clang-format-19 -i "${files[@]}"
    exit 0
fi
bad=0
for f in "${files[@]}"; do
    [ -e "$f" ] || continue # deleted, not yet committed
    clang-format-19 --dry-run -Werror "$f" 2>/dev/null || { echo "format: $f"; bad=1; }
done
[ $bad = 0 ] || echo "format: run scripts/format.sh"
exit $bad
