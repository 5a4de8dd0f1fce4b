#!/usr/bin/env bash
# Usage: link_blas.sh OUT. Links the routines that src/compress/linear_algebra/blas.cc calls into one
# library, from the static libraries of Debian's OpenBLAS, LAPACKE and libgfortran. A wheel holds it,
# since a machine without Debian's packages has none of these libraries. It has a tenth of their size.
set -euo pipefail
out=${1:?the library to write; packaging/build.sh names it}
[ "$(uname -m)" = x86_64 ] || { echo "$0: expected an x86-64 machine, found $(uname -m)" >&2; exit 1; }
folder=/usr/lib/$(gcc -dumpmachine)
fortran=$(gcc -print-file-name=libgfortran.a)
quadmath=$(gcc -print-file-name=libquadmath.a)
archives=("$folder/liblapacke.a" "$folder/openblas-openmp/liblapack.a" "$folder/openblas-openmp/libopenblas.a"
  "$folder/libtmglib.a" "$fortran" "$quadmath")
for archive in "${archives[@]}"; do
  [ -f "$archive" ] || { echo "$archive: is missing: tools/install_dependencies.sh package" >&2; exit 1; }
done

# The names in the sources are the names to keep.
here=$(cd "$(dirname "$0")" && pwd)
mapfile -t routines < <(grep -oE '"(cblas|LAPACKE|blas)_[a-z_0-9]+"' \
  "$here/../src/compress/linear_algebra/blas.cc" | tr -d '"' | sort -u)
[ ${#routines[@]} -ge 10 ] || { echo "blas.cc: expected the names of at least 10 routines, found ${#routines[*]}" >&2; exit 1; }

# OpenBLAS has kernels for 25 kinds of x86 processors. These are kept. A processor of another kind
# gets those of PRESCOTT, which need SSE3 alone.
kept=" HASWELL ZEN SKYLAKEX COOPERLAKE PRESCOTT "
replaced=()
for table in $(nm "$folder/openblas-openmp/libopenblas.a" 2>/dev/null | sed -nE 's/^[0-9a-f]+ [BDR] (gotoblas_[A-Z].*)$/\1/p' | sort -u); do
  [[ $kept == *" ${table#gotoblas_} "* ]] || replaced+=("-Wl,--defsym=$table=gotoblas_PRESCOTT")
done

{ printf '{ global:'; printf ' %s;' "${routines[@]}"; printf ' local: *; };\n'; } >"$out.map"
gcc -shared -o "$out" -s "${routines[@]/#/-Wl,-u,}" "${replaced[@]}" -Wl,--version-script="$out.map" \
  -Wl,--gc-sections -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--start-group "${archives[@]}" -Wl,--end-group -lgomp -lm
rm "$out.map"
