#!/usr/bin/env bash
# Usage: release_test.sh WORK. Tests packaging/release.sh without building: the source archive has the same
# bytes from two clones and no file that git does not know, and a checkout with changes is refused.
set -euo pipefail
work=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
git -C "$root" rev-parse --git-dir >/dev/null 2>&1 || { echo "skipped: the sources are no clone"; exit 0; }
rm -rf "$work"
mkdir -p "$work"
fail() { echo "$*"; exit 1; }

for clone in one two; do
  git clone --quiet --shared "$root" "$work/$clone"
  # The script of this working tree, as it will be committed.
  cp "$root/packaging/release.sh" "$work/$clone/packaging/release.sh"
  git -C "$work/$clone" -c user.name=test -c user.email=test@localhost -c commit.gpgsign=false commit --quiet --all \
    --allow-empty --message "test" --date "2026-01-01T00:00:00Z"
done
export GIT_COMMITTER_DATE="2026-01-01T00:00:00Z"
for clone in one two; do
  git -C "$work/$clone" -c user.name=test -c user.email=test@localhost -c commit.gpgsign=false commit --quiet --amend \
    --allow-empty --no-edit --date "2026-01-01T00:00:00Z"
  "$work/$clone/packaging/release.sh" --source --out "$work/$clone/out" >"$work/said"
done
diff -r "$work/one/out" "$work/two/out" || fail "expected equal files from two clones"
grep -q "gpg --verify" "$work/said" || fail "expected how to sign the files, found: $(cat "$work/said")"
(cd "$work/one/out" && sha256sum --quiet --check SHA256SUMS)
archive=$(echo "$work"/one/out/neuronmm-*.tar.gz)
name=$(basename "$archive" .tar.gz)
tar -tzf "$archive" | grep -v '/$' | sed "s|^$name/||" | sort >"$work/packed"
git -C "$work/one" ls-files | sort >"$work/known"
diff "$work/known" "$work/packed" || fail "expected the files that git knows"

touch "$work/one/new"
! "$work/one/packaging/release.sh" --source --out "$work/three" >"$work/said" 2>&1 || fail "expected a refusal"
grep -q "expected a clean checkout" "$work/said" || fail "expected what is wrong, found: $(cat "$work/said")"
rm "$work/one/new"
! "$work/one/packaging/release.sh" --source --out "$work/one/out" >"$work/said" 2>&1 || fail "expected a refusal"
grep -q "already exists" "$work/said" || fail "expected what is wrong, found: $(cat "$work/said")"
