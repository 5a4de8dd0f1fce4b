#!/usr/bin/env bash
# Usage: prefix_test.sh WORK. Tests cmake/check_prefix.cmake: what an installation says of a prefix that
# cannot be written, of a file in its place, and of another version that is there.
set -euo pipefail
work=$1
script=$(cd "$(dirname "$0")/../.." && pwd)/cmake/check_prefix.cmake
rm -rf "$work"
mkdir -p "$work/old/bin" "$work/broken/bin" "$work/closed"

as_user=()  # root may write anywhere
if [ "$(id -u)" -eq 0 ]; then
  # Others may not enter each folder above the sources, so this user gets a copy.
  place=$(mktemp -d)
  trap 'rm -rf "$place"' EXIT
  cp "$script" "$place/check_prefix.cmake"
  mkdir "$place/closed"
  chmod 755 "$place" "$place/closed"
  as_user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
else
  place=$work
  cp "$script" "$work/check_prefix.cmake"
  chmod 555 "$work/closed"
fi

# Runs the check and expects words in what it says. Words may be broken into lines by cmake.
expect() {  # arguments: CODE PREFIX WORDS...
  local code=$1 prefix=$2 found=0 said words
  shift 2
  said=$("${as_user[@]}" cmake -D NEURONMM_VERSION=9.9.9 -D CMAKE_INSTALL_PREFIX="$prefix" \
    -P "$place/check_prefix.cmake" 2>&1) || found=$?
  said=$(tr -s ' \n' ' ' <<<"$said")
  [ $found -eq "$code" ] || { echo "$prefix: expected exit code $code, found $found: $said"; exit 1; }
  for words in "$@"; do
    grep -qF -- "$words" <<<"$said" || { echo "$prefix: expected \"$words\" in: $said"; exit 1; }
  done
}

expect 1 "$place/closed" "expected a folder that you may write" "as root" "--prefix"
expect 1 "$place/closed/new/folder" "closed: expected a folder that you may write"
as_user=()
touch "$work/file"
expect 1 "$work/file" "expected a folder to install into, found a file" "--prefix DIR"
expect 0 "$work/new"
printf '#!/bin/sh\necho neuronmm 0.2.0\n' >"$work/old/bin/neuronmm"
printf '#!/bin/sh\nexit 1\n' >"$work/broken/bin/neuronmm"
chmod +x "$work"/{old,broken}/bin/neuronmm
expect 0 "$work/old" "neuronmm 0.2.0 is replaced by 9.9.9" "delete $work/old/share/neuronmm"
expect 0 "$work/broken" "a program that does not run is replaced"
printf '#!/bin/sh\necho neuronmm 9.9.9\n' >"$work/old/bin/neuronmm"
expect 0 "$work/old"
! grep -q replaced <<<"$(cmake -D NEURONMM_VERSION=9.9.9 -D CMAKE_INSTALL_PREFIX="$work/old" -P "$script" 2>&1)"
