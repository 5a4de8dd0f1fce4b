#!/usr/bin/env bash
# Tests the Debian package of the program. The package must name the libraries that it needs, and
# the program must run from the folder in which it was unpacked.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=build/packages
rm -rf $work
(cd build/release && cpack -G DEB -B ../packages >/dev/null)
package=$(echo $work/neuronmm_*.deb)
depends=$(dpkg-deb -f "$package" Depends)
echo "$(basename "$package") depends on: $depends"
for library in libc6 libfmt libpcre2-8 libutf8proc; do
  grep -q "$library" <<<"$depends" || { echo "expected a dependency on $library" >&2; exit 1; }
done
! grep -q torch <<<"$depends"
dpkg-deb -x "$package" $work/root
version=$(dpkg-deb -f "$package" Version)
for file in python/nki/run.py texts/calibration.txt texts/README.md; do
  [ -s "$work/root/usr/share/neuronmm/$file" ] || { echo "expected $file in the package" >&2; exit 1; }
done
[ "$($work/root/usr/bin/neuronmm --version)" = "neuronmm ${version%%-*}" ]
