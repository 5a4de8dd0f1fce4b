#!/usr/bin/env bash
# Tests a server on the demo model with a chat template under the load of Locust. Its users request
# streamed chats, whose events are read and counted, and completions without a stream. No request
# may fail, and at the end every block of the KV cache must be free again.
#   tests/slow/serve_locust.sh [SECONDS]       20 by default
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly neuronmm=${NEURONMM:-$PWD/build/release/neuronmm} venv=build/locust_venv work=build/serve_locust
[ -x $venv/bin/python ] || python3 -m venv $venv
$venv/bin/pip install --quiet locust==2.47.0
rm -rf $work
mkdir -p $work
. tests/slow/serve_load/chat_model.sh
serve_chat_model
$venv/bin/locust --locustfile tests/slow/serve_load/locustfile.py --host "$url" --headless --users 24 --spawn-rate 12 \
  --run-time "${1:-20}s" --stop-timeout 30 --only-summary --json-file $work/locust --exit-code-on-error 1
python3 - $work/locust.json "$url/metrics" <<'PY'
import json, re, sys, urllib.request
rows = {row["name"]: row for row in json.load(open(sys.argv[1]))}
for name in ("/v1/chat/completions", "/v1/completions"):
    assert rows[name]["num_requests"] > 20 and rows[name]["num_failures"] == 0, rows[name]
metrics = urllib.request.urlopen(sys.argv[2]).read().decode()
value = lambda name: sum(float(number) for number in re.findall(rf"^vllm:{name}{{.*}} (\S+)$", metrics, re.M))
done, asked = value("request_success_total"), sum(row["num_requests"] for row in rows.values())
assert done == asked, (done, asked)
assert value("num_requests_running") == value("num_requests_waiting") == 0, metrics
PY
