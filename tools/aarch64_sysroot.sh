#!/usr/bin/env bash
# Makes build/aarch64-sysroot if it does not exist: Debian 12's libraries for 64-bit ARM that
# neuronmm and its tests are linked with (cmake/aarch64.cmake). The packages of this machine do not
# change.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly sysroot=build/aarch64-sysroot
readonly packages=libc6-dev,libstdc++-12-dev,libgomp1,libfmt-dev,nlohmann-json3-dev,libcli11-dev,libhwy-dev,\
libopenblas-openmp-dev,liblapacke-dev,libpcre2-dev,libutf8proc-dev,libxxhash-dev,libedit-dev,libboost1.81-dev,libssl-dev,prometheus-cpp-dev,libgtest-dev,libgmock-dev

[ -e $sysroot ] && exit 0
echo "unpacking Debian packages for arm64 into $sysroot"
mkdir -p build
rm -rf $sysroot.part
mmdebstrap --quiet --variant=extract --architectures=arm64 --include=$packages bookworm $sysroot.part
# Links replace what the unpacked packages would get from update-alternatives.
(
  cd $sysroot.part/usr/lib/aarch64-linux-gnu
  ln -s openblas-openmp/lib*.so* .
  cd pkgconfig
  ln -s ../openblas-openmp/pkgconfig/openblas.pc .
  for library in blas lapack; do ln -s ../openblas-openmp/pkgconfig/$library-openblas.pc $library.pc; done
)
mv $sysroot.part $sysroot
