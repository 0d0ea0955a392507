#!/usr/bin/env bash
# Unpacks build-gpu/*.txz, as which modules travel to the machine with a GPU, beside what lies in their
# folders; what is unpacked already stays. The scripts that run there call it. There need be no xz.
set -u
cd "${BUILD_GPU:-$(dirname "$0")/../../build-gpu}" 2> /dev/null || exit 0 # nothing to unpack
for f in *.txz; do
    [ -e "$f" ] || continue # none
    [ "$f" -nt "${f%.txz}/.unpacked" ] || continue
    python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall()' "$f" || exit 1
    touch "${f%.txz}/.unpacked"
done
