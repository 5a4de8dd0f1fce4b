#!/usr/bin/env bash
# Makes all files of a release on Debian 12, from a clean clone of HEAD, and their checksums:
#
#   neuronmm-VERSION-*.whl, neuronmm_VERSION_*.deb    the packages, by packaging/build.sh
#   neuronmm-VERSION.tar.gz                           the source
#   *.cdx.json                                        what each package contains or needs (CycloneDX)
#   SHA256SUMS                                        the checksums of all of them
#
#   packaging/release.sh [--twice] [--source] [--out DIR] [--python PROGRAM]
#
#   --twice            make everything a second time, in another folder, and compare the bytes
#   --source           make only the source archive and the checksums
#   --out DIR          a new folder for the files (default build/release-VERSION)
#   --python PROGRAM   build the wheel for this Python (default python3)
#
# The version is that of project() in CMakeLists.txt. The script sets no version and no tag. At its end it
# says how to sign the files.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "$0: $*" >&2; exit 1; }
usage() { sed -n '2,/^set /s/^# \?//p' "$0" >&2; exit 2; }

twice=false source_only=false out="" python=python3
while [ $# -gt 0 ]; do
  case "$1" in
    --twice) twice=true ;;
    --source) source_only=true ;;
    --out) [ $# -gt 1 ] || usage; out=$2; shift ;;
    --python) [ $# -gt 1 ] || usage; python=$2; shift ;;
    *) usage ;;
  esac
  shift
done

export TZ=UTC LC_ALL=C.UTF-8
version=$(sed -nE 's/.*project\(neuronmm VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
[ -n "$version" ] || fail "CMakeLists.txt: expected project(neuronmm VERSION ...), found none"
out=${out:-build/release-$version}
[ ! -e "$out" ] || fail "$out: already exists; remove it, or name another folder with --out"
changed=$(git status --porcelain)
[ -z "$changed" ] || fail "expected a clean checkout, found changes; commit or remove them:
$changed"
commit=$(git rev-parse HEAD)
date=$(git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%S+00:00 HEAD)
name=neuronmm-$version
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# git gives each file the date of the commit, and gzip -n leaves out its own.
make_source() {  # arguments: TO
  git archive --format=tar --prefix="$name/" "$commit" | gzip -9n >"$1/$name.tar.gz"
}

# Prints "NAME VERSION ARCHITECTURE" of installed Debian packages, without those that are not installed.
versions_of() {  # arguments: NAME...
  dpkg-query -W -f '${Package} ${Version} ${Architecture}\n' "$@" 2>/dev/null | sort -u || true
}

# Packages whose headers alone are compiled into the program. No list of libraries has them.
readonly header_only=(nlohmann-json3-dev libcli11-dev libboost1.81-dev)

# Prints the names of the Debian packages that a package contains or depends on.
contents_of() {  # arguments: PACKAGE
  case "$1" in
    *.whl) unzip -Z1 "$1" 'neuronmm/share/neuronmm/licences/*.txt' | sed -E 's/.*\/(.*)\.txt/\1/' ;;
    *.deb) dpkg-deb -f "$1" Depends | tr ',|' '\n\n' | sed -E 's/\(.*\)//; s/ //g' ;;
  esac
  printf '%s\n' "${header_only[@]}"
}

# Writes PACKAGE.cdx.json. The serial number follows from the commit, so it is the same again.
write_bom() {  # arguments: PACKAGE
  local serial names
  mapfile -t names < <(contents_of "$1" | sort -u)
  serial=$("$python" -c 'import sys, uuid; print(uuid.uuid5(uuid.NAMESPACE_URL, sys.argv[1]))' "$commit/$(basename "$1")")
  versions_of "${names[@]}" | "$work/bom/bin/debsbom" generate --from-pkglist --sbom-type cdx --distro-name neuronmm \
    --distro-arch "$(dpkg --print-architecture)" --distro-version "$version" --timestamp "$date" \
    --distro-supplier "neuronmm developers" --cdx-serialnumber "$serial" --add-meta-data "commit=$commit" \
    --add-meta-data "package=$(basename "$1")" --out "$1.cdx.json"
  packaging/complete_bom.py "$1.cdx.json" "$1"
  [ -s "$1.cdx.json" ] || fail "$1.cdx.json: expected a bill of materials, found none"
}

make_files() {  # arguments: TO
  local to=$1 clone package
  mkdir -p "$to"
  make_source "$to"
  if ! $source_only; then
    clone=$(mktemp -d "$work/clone.XXXX")
    git clone --quiet --no-hardlinks . "$clone/neuronmm"
    git -C "$clone/neuronmm" checkout --quiet --detach "$commit"
    "$clone/neuronmm/packaging/build.sh" --python "$python"
    cp "$clone"/neuronmm/build/dist/* "$to"
    for package in "$to"/*.whl "$to"/*.deb; do write_bom "$package"; done
    rm -rf "$clone"
  fi
  (cd "$to" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
}

if ! $source_only; then
  tools/install_dependencies.sh package
  "$python" -m venv "$work/bom"
  "$work/bom/bin/pip" install --quiet --disable-pip-version-check -r packaging/sbom_requirements.txt
fi
make_files "$work/first"
if $twice; then
  make_files "$work/second"
  diff -r "$work/first" "$work/second" >&2 || fail "expected equal files from two builds, found the differences above"
  echo "two builds gave equal files"
fi
mkdir -p "$(dirname "$out")"
mv "$work/first" "$out"

cat <<END
$out:
$(cat "$out/SHA256SUMS")

To sign the files, sign their checksums with your key, and publish both:
  gpg --armor --detach-sign $out/SHA256SUMS          # makes SHA256SUMS.asc
  ssh-keygen -Y sign -f KEY -n file $out/SHA256SUMS  # or with a key of SSH: makes SHA256SUMS.sig
Whoever downloads them checks both in the folder of the files:
  gpg --verify SHA256SUMS.asc SHA256SUMS && sha256sum --check SHA256SUMS
END
