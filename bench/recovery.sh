#!/usr/bin/env bash
# Measures how much training recovers of what compression loses. The measure is the divergence (KL)
# from the dense model on two texts that neither compression nor training nor any choice has seen.
# It is reported for each form after each number of training tokens.
#
#   bench/recovery.sh MODEL_DIR DATA_DIR [WORK_DIR]
#
# MODEL_DIR is the dense model. DATA_DIR has text/wiki.valid.raw, text/wiki.test.raw,
# text/c4_sample.jsonl (a {"text": ...} per line) and text/alpaca_sample.json. The default of WORK_DIR
# is build/recovery.
#
# The training text is C4's documents 0-199, articles of WikiText's validation text and Alpaca's
# answers. After these comes text that the dense model writes itself. Compression sees the documents
# and the articles. The first 60 kB of the validation text are in none of these, and are used to
# stop training and to choose. Results are reported on WikiText's test text and C4's documents
# 200-299.
#
# Every point is a separate run whose learning rate ends at 0. After an interrupt the same command
# continues: points in WORK_DIR/points.txt are not measured again, and an unfinished training
# resumes.
#
# Environment variables:
# - FORMS, TOKENS, RATIO: the forms, the numbers of training tokens and the ratio of compress.
# - CALIBRATION, MORE_CALIBRATION: the number of tokens that compress sees, and one more text that
#   it sees.
# - FLAGS: other flags of finetune, such as --learning-rate.
# - BATCH: the number of sequences of 512 tokens in a step.
# - CONTEXT, LIMIT: the length and the number of the windows of each text.
# - TRAIN: another training text, as written by bench/recovery_text.py. The dense model then adds
#   none.
#
# The output of all programs goes to WORK_DIR/errors.txt.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,/^set /s/^# \?//p' "$0" >&2; exit 2; }
root=$(realpath "$(dirname "$0")/..")
neuronmm=$(realpath "$(command -v "${NEURONMM:-$root/build/release/neuronmm}")" 2>/dev/null) ||
  { echo "${NEURONMM:-$root/build/release/neuronmm}: no such program; name it in NEURONMM" >&2; exit 1; }
for name in wiki.valid.raw wiki.test.raw c4_sample.jsonl alpaca_sample.json; do
  [ -f "$2/text/$name" ] || { echo "$2/text/$name: expected this text, found none" >&2; exit 1; }
done
model=$(realpath "$1") data=$(realpath "$2") work=${3:-$root/build/recovery}
forms=${FORMS:-neurons mixed uv} tokens=${TOKENS-76800 153600 307200 614400 2000000}
ratio=${RATIO:-0.2} calibration=${CALIBRATION:-262144}
flags=${FLAGS:-} batch=${BATCH:-4} limit=${LIMIT:-24} context=${CONTEXT:-1024}
length=512 more_text=${TRAIN:+$(realpath "$TRAIN")} more_calibration=${MORE_CALIBRATION:+$(realpath "$MORE_CALIBRATION")}
mkdir -p "$work"
cd "$work"
touch points.txt

# The text is split by whole documents, so that no document is on both sides.
[ -f train.txt ] || python3 - "$data/text" <<'PY'
import json, sys
folder = sys.argv[1]
documents = [json.loads(line)["text"] for line in open(folder + "/c4_sample.jsonl")]
answers = [" ".join(filter(None, (one["instruction"], one.get("input"), one["output"])))
           for one in json.load(open(folder + "/alpaca_sample.json"))]
open("c4_held_out.txt", "w").write("\n\n".join(documents[200:300]))
open("calibration.txt", "w").write("\n\n".join(documents[:200]))
articles = open(folder + "/wiki.valid.raw").read()
articles = articles[articles.index("\n = ", 62000):][:650000]
open("articles.txt", "w").write(articles)
open("train.txt", "w").write("\n\n".join([*documents[:200], articles, "\n\n".join(answers)[:200000]]))
PY
[ -f wiki_held_out.txt ] || head -c 110000 "$data/text/wiki.test.raw" | iconv -c -f utf-8 -t utf-8 >wiki_held_out.txt || true
[ -f validation.txt ] || head -c 60000 "$data/text/wiki.valid.raw" | iconv -c -f utf-8 -t utf-8 >validation.txt || true

divergence() {
  "$neuronmm" perplexity "$1" "$2" --reference "$model" --context "$context" --limit "$limit" 2>>errors.txt | awk '$1 == "KL" {print $2}'
}
# Measures one point and appends it to points.txt.
point() {  # arguments: FORM TOKENS FOLDER SECONDS
  local wiki c4
  wiki=$(divergence "$3" wiki_held_out.txt)
  c4=$(divergence "$3" c4_held_out.txt)
  printf '%-8s %8d tokens  wiki %s  c4 %s  %d s\n' "$1" "$2" "$wiki" "$c4" "$4" | tee -a points.txt
}
measured() { grep -qE "^$1 +$2 tokens" points.txt; }

for form in $forms; do
  if [ ! -d "$form" ]; then
    case $form in
      uv) choice="--method whitened --allocate uniform" ;;
      neurons) choice="--allocate uniform" ;;
      *) choice="" ;;
    esac
    # shellcheck disable=SC2086
    "$neuronmm" compress "$model" -o "$form" --form "$form" $choice --ratio "$ratio" --no-measure --reconstruct off \
      --calibration-tokens "$calibration" --calibration calibration.txt --calibration articles.txt ${more_calibration:+--calibration "$more_calibration"} 2>>errors.txt >/dev/null
  fi
  measured "$form" 0 || point "$form" 0 "$form" 0
done

# The smallest number of tokens comes first, so that every form has a first point before any form is
# finished.
for count in $tokens; do
  # The texts have about 300,000 tokens, and the dense model writes what is missing.
  generated=$((count > 300000 ? count - 300000 : 0))
  [ -z "$more_text" ] || generated=0
  for form in $forms; do
    measured "$form" "$count" && continue
    out=$form-$count start=$SECONDS
    # shellcheck disable=SC2086
    [ -d "$out" ] || "$neuronmm" finetune "$form" -o "$out" --data "${more_text:-train.txt}" --teacher "$model" \
      --self-generated "$generated" --cutoff "$length" --batch "$batch" --tokens "$count" \
      --validation validation.txt --json "$out.json" $flags >"$out.txt" 2>>errors.txt
    point "$form" "$count" "$out" $((SECONDS - start))
  done
done
