#!/usr/bin/env bash
# `neuronmm bench --url` against `neuronmm serve`, over TLS and with a key: both count the same requests and tokens; without the
# key, or trust in the certificate, the load generator says so.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly neuronmm=${NEURONMM:-$PWD/build/release/neuronmm} work=build/serve_load
rm -rf $work
mkdir -p $work
openssl req -x509 -newkey rsa:2048 -nodes -keyout $work/key.pem -out $work/certificate.pem -days 2 -subj /CN=localhost \
  -addext subjectAltName=DNS:localhost 2>/dev/null
"$neuronmm" serve models/demo --port 0 --tls-cert $work/certificate.pem --tls-key $work/key.pem --api-key sesame >$work/serve.log 2>&1 &
readonly server=$!
trap 'kill $server 2>/dev/null' EXIT
for _ in {1..200}; do
  grep -qs 'is ready' $work/serve.log && break
  sleep 0.1
done
port=$(grep -oE '127\.0\.0\.1:[0-9]+' $work/serve.log | head -1 | cut -d: -f2)
readonly port

bench() { "$neuronmm" bench --url "https://localhost:$port" --tokenizer models/demo --prompt-tokens 24 --new-tokens 16 "$@" 2>&1; }
fails_with() {  # arguments: WORDS ARGUMENT...
  local words=$1 said
  shift
  if said=$(bench "$@"); then echo "expected an error with \"$words\"" >&2; exit 1; fi
  grep -q "$words" <<<"$said" || { echo "expected \"$words\", found: $said" >&2; exit 1; }
}
fails_with "certificate verify failed" --api-key sesame
export SSL_CERT_FILE=$work/certificate.pem
fails_with "401" --api-key wrong
bench --api-key sesame --num-prompts 60 --concurrency 8 --range-ratio 0.5 --json $work/closed.json
bench --api-key sesame --num-prompts 60 --request-rate 100 --no-ignore-eos --json $work/open.json

python3 - $work "https://localhost:$port/metrics" <<'PY'
import json, pathlib, re, sys, urllib.request
work, url = pathlib.Path(sys.argv[1]), sys.argv[2]
asked = urllib.request.Request(url, headers={"Authorization": "Bearer sesame"})
metrics = urllib.request.urlopen(asked).read().decode()
served = lambda name: sum(float(value) for value in re.findall(rf"^vllm:{name}(?:{{.*}})? (\S+)$", metrics, re.M))
reports = [json.loads((work / name).read_text()) for name in ("closed.json", "open.json")]
assert [report["completed"] for report in reports] == [60, 60], reports
assert not any(report["failed"] for report in reports), reports
# One request before each measurement is not counted by the load generator.
assert served("request_success_total") == 60 + 60 + 2, metrics
told = sum(report["total_output_tokens"] for report in reports)
assert told < served("generation_tokens_total") <= told + 2 * 24, (told, metrics)
PY
