# A function for scripts that set $neuronmm and $work. `serve_chat_model FLAG...` serves the demo
# model with a chat template until the script ends, and sets $url and $server.
serve_chat_model() {
  cp -r models/demo "$work/model"
  python3 - "$work/model/tokenizer_config.json" <<'PY'
import json, pathlib, sys
path = pathlib.Path(sys.argv[1])
template = "{% if tools %}<tool_call>{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}\n{% endfor %}"
path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": template}))
PY
  rm -f "$work/serve.log"
  "$neuronmm" serve "$work/model" --port 0 "$@" >"$work/serve.log" 2>&1 &
  server=$!
  trap 'kill $server 2>/dev/null || true' EXIT
  for _ in {1..200}; do
    grep -qs 'is ready' "$work/serve.log" && break
    sleep 0.1
  done
  url=$(grep -oE 'http://[0-9.:]+' "$work/serve.log" | head -1)
}
