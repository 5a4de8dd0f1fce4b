#!/usr/bin/env bash
# Runs everything that a page of docs/measurements needs, and writes its tables.
#
#   bench/reproduce.sh PAGE [STEP...]   run the steps of a page, such as "tuning" or "readme"
#   bench/reproduce.sh --list [PAGE]    print the steps, and what each needs that is not there
#   bench/reproduce.sh --sections PAGE  print the sections that the steps of a page make
#   bench/reproduce.sh --uncovered      print the tables that no step makes
#
# The steps are in bench/pages/PAGE.sh, and a step is named by its number. The output of each goes to
# $WORK/PAGE/NUMBER.txt (default of WORK: build/measurements), with the date, commit, machine and
# command above it. A step whose output is there is not run again: delete the file to repeat it. A
# table that a program writes as CSV goes to docs/measurements.
#
# Models, texts and other programs are named by variables. --list prints those that a step needs:
#   NEURONMM    the program (default build/release/neuronmm)
#   DATA        a folder with texts and tokenizers, as docs/reference/scores.md describes
#   SMOL, QWEN  SmolLM2-135M-Instruct and Qwen2.5-Coder-0.5B as folders in f32, off any grid of 4 bits
#   C4, C4_TEST two texts of C4's validation documents, for calibration and for reporting
#   QWEN_GGUF   Qwen2.5-Coder-0.5B in Q4_K_M
#   MIXTURE     the mixture that tools/train_mixture_model.py makes
#   STORIES     stories to calibrate it with, without those of models/demo
#   LLAMA       a folder with llama.cpp's programs
set -euo pipefail
cd "$(dirname "$0")/.."

WORK=${WORK:-build/measurements}
NEURONMM=${NEURONMM:-build/release/neuronmm}
BENCH=${BENCH:-build/release/bench}
mode=run page="" number=0 failed=0
wanted=()

# Prints the names among NAMES that have no value, or whose value is no file, folder or program.
missing_of() {  # arguments: NAME...
  local name
  for name in "$@"; do
    if [ -z "${!name:-}" ] || ! { [ -e "${!name}" ] || command -v "${!name}" >/dev/null; }; then echo "$name"; fi
  done
}

is_wanted() {
  [ ${#wanted[@]} -eq 0 ] || [[ " ${wanted[*]} " == *" $number "* ]]
}

# Defines a step. SECTION is the section of the page whose numbers the step makes, or several with "; "
# between them. NEEDS are names of variables, separated by spaces. Several steps may have one section.
step() {  # arguments: SECTION NEEDS COMMAND...
  local section=$1 needs=$2 missing out
  shift 2
  number=$((number + 1))
  # shellcheck disable=SC2086  # the names are words
  missing=$(missing_of $needs | tr '\n' ' ')
  case $mode in
    sections) printf '%s\n' "${section//; /$'\n'}"; return ;;
    list) printf '%s %2d  %s%s\n        %s\n' "$page" $number "$section" "${missing:+  (needs $missing)}" "$*"; return ;;
  esac
  is_wanted || return 0
  out=$WORK/$page/$number.txt
  if [ -n "$missing" ]; then
    echo "step $number: not run: set $missing(bench/reproduce.sh --list $page)" >&2
    failed=$((failed + 1))
  elif [ -e "$out" ]; then
    echo "step $number: $out is there"
  else
    run_step "$section" "$out" "$@"
  fi
}

run_step() {  # arguments: SECTION OUT COMMAND...
  local section=$1 out=$2
  shift 2
  mkdir -p "$(dirname "$out")"
  echo "step $number: $*"
  {
    echo "# $section"
    echo "# $(date -u +%FT%TZ), commit $(git rev-parse --short HEAD), $(nproc) cores of $(cpu_name)"
    echo "# load before: $(cut -d' ' -f1-3 /proc/loadavg)"
    echo "# $*"
  } >"$out.partial"
  if (set -e; "$@") >>"$out.partial" 2>&1; then
    mv "$out.partial" "$out"
  else
    echo "step $number: failed, see $out.partial" >&2
    failed=$((failed + 1))
  fi
}

cpu_name() {
  sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1
}

read_page() {  # arguments: PAGE
  page=$1 number=0
  local -r mode=$mode  # a page that takes the name for itself would run its steps
  [ -f "bench/pages/$page.sh" ] || { echo "$page: expected one of: $(pages)" >&2; exit 2; }
  # shellcheck source=/dev/null
  . "bench/pages/$page.sh"
}

pages() {
  for file in bench/pages/*.sh; do basename "$file" .sh; done | tr '\n' ' '
}

# Prints PAGE and SECTION of each section of a measurement page that has a table and no step. A section
# is left out if its table has no measurement, which the page's file says by `no_numbers`.
print_uncovered() {
  local name file
  mode=sections
  for file in docs/measurements/*.md; do
    name=$(basename "$file" .md)
    { [ ! -f "bench/pages/$name.sh" ] || read_page "$name"; } >"$covered"
    awk -v page="$name" '
      FILENAME != ARGV[2] { covered[$0]; next }
      /^```/ { block = !block }
      /^#+ / && !block { title = $0; sub(/^#+ /, "", title) }
      /^\|/ && !block && !(title in covered) && !(title in seen) { seen[title]; print page ": " title }
    ' "$covered" "$file"
  done
}

# Names sections whose tables describe something and hold no measurement.
no_numbers() {  # arguments: SECTION...
  [ $mode != sections ] || printf '%s\n' "$@"
}

case ${1:-} in
  --uncovered)
    covered=$(mktemp)
    trap 'rm -f "$covered"' EXIT
    print_uncovered
    exit ;;
  --sections)
    mode=sections
    read_page "${2:-}"
    exit ;;
  --list)
    mode=list
    for name in ${2:-$(pages)}; do read_page "$name"; done
    exit ;;
  "" | -*) sed -n '2,/^set /s/^# \?//p' "$0" >&2; exit 2 ;;
esac
name=$1
shift
wanted=("$@")
read_page "$name"
[ $failed -eq 0 ] || { echo "$name: $failed steps did not run or failed" >&2; exit 1; }
