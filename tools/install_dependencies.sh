#!/usr/bin/env bash
# Installs the Debian 12 packages that neuronmm needs and that are missing. The argument chooses the
# packages:
#   build      needed to build the program
#   test       (the default) also what the tests, sanitizers, fuzzers and the format check need
#   python     also what `pip install .` needs
#   package    also what packaging/build.sh needs
#   roots      only what the test of the packages needs
#   browser    only what the tests of the server's web page need
#   proxy      only what the test of several servers needs
#   bench      also the libraries that bench_kernels compares the program with
#   aarch64    only what is needed to build for 64-bit ARM and to run that under emulation
set -euo pipefail

build_packages=(
  g++ cmake ninja-build pkg-config
  libfmt-dev nlohmann-json3-dev libcli11-dev       # text, JSON, command line
  libhwy-dev                                       # SIMD
  libopenblas-openmp-dev liblapacke-dev            # factorizations
  libpcre2-dev libutf8proc-dev                     # tokenizer
  libxxhash-dev                                    # checksums of unfinished work
  libedit-dev                                      # line editing of `neuronmm chat`
  libopenmpi-dev openmpi-bin                       # MPI, for runs in several processes
  libboost1.81-dev libssl-dev prometheus-cpp-dev   # `neuronmm serve`: sockets and HTTP, TLS, metrics
)
test_packages=(
  libgtest-dev libgmock-dev libbenchmark-dev
  clang clang-format clang-tidy libclang-rt-14-dev libomp-14-dev
  python3-numpy                                    # the interpreter that checks emitted kernels
  openssl                                          # makes the certificate of a test server
)
python_packages=(python3-dev python3-venv)         # what `pip install .` needs
package_packages=(
  "${python_packages[@]}" dpkg-dev file unzip      # cpack asks the first two what the program depends on
  libgfortran-12-dev                               # linked into the BLAS library of the wheel
)
browser_packages=(chromium chromium-driver python3-venv)
root_packages=(mmdebstrap qemu-user-static)        # empty roots, and a processor with AVX2 only
proxy_packages=(nginx-light)                       # nginx, as a proxy with deploy/nginx.conf
bench_packages=(libdnnl-dev libxsmm-dev)           # oneDNN, libxsmm: optional peers of bench_kernels
aarch64_packages=(cmake ninja-build pkg-config g++-aarch64-linux-gnu qemu-user-static mmdebstrap)

packages=("${build_packages[@]}")
case "${1:-test}" in
  build) ;;
  test) packages+=("${test_packages[@]}") ;;
  python) packages+=("${python_packages[@]}") ;;
  package) packages+=("${package_packages[@]}") ;;
  roots) packages=("${root_packages[@]}") ;;
  browser) packages=("${browser_packages[@]}") ;;
  proxy) packages=("${proxy_packages[@]}") ;;
  bench) packages+=("${bench_packages[@]}") ;;
  aarch64) packages=("${aarch64_packages[@]}") ;;
  *) echo "usage: $0 [build|test|python|package|roots|browser|proxy|bench|aarch64]" >&2; exit 2 ;;
esac

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "installing Debian packages: ${missing[*]}"
if [ "$(id -u)" -eq 0 ]; then
  as_root=()
elif command -v sudo >/dev/null; then
  as_root=(sudo)
else
  echo "$0: needs root or sudo to install them; as root run: apt-get install ${missing[*]}" >&2
  exit 1
fi
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
