#!/usr/bin/env bash
# Tests `neuronmm serve` with TLS and an API key under many parallel requests. The client and the
# server's metrics must count the same requests and tokens. A client without the key, or without
# trust in the certificate, must be refused.
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

load() { tools/load_completions.py "https://localhost:$port" --requests 60 --prompt-tokens 24 --new-tokens 16 "$@" 2>&1; }
fails_with() {  # arguments: WORDS
  local said
  if said=$(load); then echo "expected an error with \"$1\"" >&2; exit 1; fi
  grep -q "$1" <<<"$said" || { echo "expected \"$1\", found: $said" >&2; exit 1; }
}
export OPENAI_API_KEY=sesame
fails_with "certificate verify failed"
export SSL_CERT_FILE=$work/certificate.pem
OPENAI_API_KEY=wrong fails_with "status 401"
load --concurrency 8 --json $work/few.json
load --concurrency 60 --stop-at-eos --json $work/many.json

python3 - $work "https://localhost:$port/metrics" <<'PY'
import json, pathlib, re, sys, urllib.request
work, url = pathlib.Path(sys.argv[1]), sys.argv[2]
metrics = urllib.request.urlopen(url).read().decode()
served = lambda name: sum(float(value) for value in re.findall(rf"^vllm:{name}(?:{{.*}})? (\S+)$", metrics, re.M))
reports = [json.loads((work / name).read_text()) for name in ("few.json", "many.json")]
assert [report["completed"] for report in reports] == [60, 60], reports
assert served("request_success_total") == 60 + 60, metrics
for name, key in (("generation_tokens_total", "total_output_tokens"), ("prompt_tokens_total", "total_input_tokens")):
    counted = sum(report[key] for report in reports)
    assert served(name) == counted, (name, counted, metrics)
PY
