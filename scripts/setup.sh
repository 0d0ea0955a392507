#!/usr/bin/env bash
# Installs what the build and its tests need, on Debian 12 or Ubuntu 24.04: only what is missing, as
# root or through sudo. Says nothing and touches nothing when all is there.
set -euo pipefail

packages=(g++ cmake ninja-build flex bison pkg-config
    llvm-19-dev libclc-19 libzstd-dev zlib1g-dev         # the compiler
    libcmocka-dev clang-19 libclang-rt-19-dev clang-format-19) # its tests

if ! command -v dpkg-query >/dev/null; then
    echo "setup: this is no Debian or Ubuntu; install these by hand, LLVM in version 19:" >&2
    echo "  ${packages[*]}" >&2
    exit 1
fi

missing=()
for p in "${packages[@]}"; do
    status=$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$p")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "setup: not root and no sudo; as root: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive

echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get -qq update
# Ubuntu keeps LLVM in `universe`, which a minimal image may have switched off.
candidate=$(apt-cache policy llvm-19-dev | awk '/Candidate:/ { print $2 }')
if [ -z "$candidate" ] || [ "$candidate" = "(none)" ]; then
    if grep -qi '^ID=ubuntu' /etc/os-release; then
        "${as_root[@]}" apt-get -qq -y install --no-install-recommends software-properties-common
        "${as_root[@]}" add-apt-repository -y universe
        "${as_root[@]}" apt-get -qq update
    else
        echo "setup: this release has no llvm-19-dev; Debian 12 and Ubuntu 24.04 have it" >&2
        exit 1
    fi
fi
"${as_root[@]}" apt-get -qq -y install --no-install-recommends "${missing[@]}"
