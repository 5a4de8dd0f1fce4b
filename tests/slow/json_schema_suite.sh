#!/usr/bin/env bash
# Runs the JSON Schema Test Suite (draft 2020-12 and draft 7), which the source package of PyPI's
# jsonschema contains. Schemas that compile must accept exactly what the suite calls valid. Two
# files are left out:
#
# - format.json expects that formats are mere notes, while neuronmm enforces them. The files in
#   optional/format/ test formats.
# - vocabulary.json uses a metaschema of its own, which is not available here.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly version=4.23.0 work=build/json_schema_suite
mkdir -p $work
if [ ! -d $work/jsonschema-$version ]; then
  python3 -m pip download --quiet --no-deps --no-binary jsonschema -d $work jsonschema==$version
  tar xzf $work/jsonschema-$version.tar.gz -C $work
fi
ninja -C build/release schema_suite
readonly program=$PWD/build/release/tests/serve/grammar/schema_suite suite=$work/jsonschema-$version/json/tests

run() {  # arguments: DRAFT FOLDER
  printf '\n== %s\n' "$2"
  (cd "$suite/$2" && find . -maxdepth 1 -name '*.json' ! -name format.json ! -name vocabulary.json -print0 | sort -z |
    xargs -0 "$program" "$1")
}
run https://json-schema.org/draft/2020-12/schema draft2020-12
run http://json-schema.org/draft-07/schema# draft7

printf '\n== formats\n'
# The files for times are left out. Only leap seconds in UTC are accepted, while the suite also has
# some with an offset. The files for host names are left out, because host names are not decoded.
cd "$suite/draft2020-12/optional/format"
"$program" https://json-schema.org/draft/2020-12/schema date.json duration.json email.json ipv4.json ipv6.json iri.json \
  iri-reference.json json-pointer.json regex.json relative-json-pointer.json uri.json uri-reference.json uri-template.json uuid.json
