#!/usr/bin/env bash
# Builds the packages of neuronmm on Debian 12, and puts them into build/dist: a wheel for `pip install`
# and a Debian package for `apt install`. Installs what the build needs. The same commit gives the same
# bytes again.
#
#   packaging/build.sh [--wheel | --deb] [--deb-build DIR] [--python PROGRAM]
#
#   --wheel, --deb     build only this package
#   --deb-build DIR    take the program from a build that exists, such as build/release
#   --python PROGRAM   build the wheel for this Python (default python3). From 3.12 on, one wheel
#                      serves all later versions; that of an older Python serves this version alone.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
readonly work=build/packaging out=build/dist
wheel=true deb=true deb_build="" python=python3
usage() { sed -n '2,/^set /s/^# \?//p' "$0" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case "$1" in
    --wheel) deb=false ;;
    --deb) wheel=false ;;
    --deb-build) [ $# -gt 1 ] || usage; deb_build=$2; shift ;;
    --python) [ $# -gt 1 ] || usage; python=$2; shift ;;
    *) usage ;;
  esac
  shift
done
[ -z "$deb_build" ] || [ -f "$deb_build/CPackConfig.cmake" ] ||
  { echo "$0: --deb-build $deb_build: expected a folder that CMake has configured, found no CPackConfig.cmake" >&2; exit 1; }

tools/install_dependencies.sh package
mkdir -p $work $out
# Nothing in the packages tells the time or the folder of the build.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH CXXFLAGS="-ffile-prefix-map=$root=."
umask 022

# Copies the licences of the Debian packages that have the libraries FILE... to the folder TO.
copy_licences() {  # arguments: TO FILE...
  local to=$1 file package
  shift
  mkdir -p "$to"
  for file in "$@"; do
    package=$(dpkg-query -S "$(readlink -f "$file")" 2>/dev/null || dpkg-query -S "$file") || return 1
    package=${package%%:*}
    cp -L "/usr/share/doc/$package/copyright" "$to/$package.txt"
  done
}

# Prints the paths of the libraries that a program or library loads, those of glibc and g++ excepted,
# which a wheel must not bring (PEP 600).
loaded_libraries() {  # arguments: FILE...
  ldd "$@" | sed -nE 's/.* => (\/[^ ]+) .*/\1/p' | sort -u |
    grep -vE '/(lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|z)\.so|ld-linux)'
}

build_wheel() {
  local venv tag raw unpacked blas libraries
  tag=$("$python" -c 'import sys; print(f"python{sys.version_info[0]}.{sys.version_info[1]}")')
  venv=$work/venv_$tag
  [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r packaging/requirements.txt
  raw=$work/raw unpacked=$work/unpacked blas=$work/libneuronmm_blas.so
  rm -rf $raw $unpacked $work/repaired
  packaging/link_blas.sh $blas
  # Programs of the wheel run as one process: a library of MPI must be that of the machine's mpirun.
  PATH=$root/$venv/bin:$PATH "$venv/bin/pip" wheel --quiet . --no-deps --no-build-isolation \
    --wheel-dir $raw -C build-dir=$work/wheel -C cmake.define.NEURONMM_MPI=OFF

  "$venv/bin/wheel" unpack --dest $unpacked $raw/neuronmm-*.whl >/dev/null
  local package=($unpacked/neuronmm-*/neuronmm)
  install -D -m 644 $blas "${package[0]}/lib/neuronmm/libneuronmm_blas.so"
  strip "${package[0]}/bin/neuronmm" "${package[0]}"/_native*.so
  mapfile -t libraries < <(loaded_libraries "${package[0]}/bin/neuronmm" "${package[0]}"/_native*.so $blas)
  copy_licences "${package[0]}/share/neuronmm/licences" "${libraries[@]}" /usr/lib/x86_64-linux-gnu/liblapacke.so.3 \
    /usr/lib/x86_64-linux-gnu/openblas-openmp/libopenblas.so.0 /usr/lib/x86_64-linux-gnu/libgfortran.so.5
  rm $raw/*.whl
  "$venv/bin/wheel" pack --dest-dir $raw $unpacked/neuronmm-* >/dev/null
  PATH=$root/$venv/bin:$PATH "$venv/bin/auditwheel" repair --plat manylinux_2_36_x86_64 --only-plat \
    --zip-compression-level 9 --wheel-dir $work/repaired $raw/neuronmm-*.whl >/dev/null
  mv $work/repaired/*.whl $out/
}

build_deb() {
  local build=${deb_build:-$work/deb}
  if [ -z "$deb_build" ]; then
    cmake -G Ninja -S . -B "$build" -DCMAKE_BUILD_TYPE=Release >/dev/null
    cmake --build "$build" --target neuronmm neuronmm_share
  fi
  rm -rf $work/cpack
  (cd "$build" && cpack -G DEB -D CPACK_COMPONENTS_ALL=program -D CPACK_STRIP_FILES=ON -B "$root/$work/cpack" >/dev/null)
  mv $work/cpack/neuronmm_*.deb $out/
}

if $wheel; then build_wheel; fi
if $deb; then build_deb; fi
ls -l $out
