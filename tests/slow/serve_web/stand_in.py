"""A server with the endpoints that the web page uses and with scripted answers. The scripts are faults
that a real server does not produce on demand, and answers that attack the page. The last message
of the user selects the script; any other message is echoed."""
import json
import pathlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGE = pathlib.Path(__file__).resolve().parents[3] / "build/release/src/serve/web/index.html"
# The policy that the server sends, as in src/serve/http/server_state.cc. The page's own policy is stricter.
POLICY = ("default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
          "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")

MARKDOWN = """# Factors

A weight of **1024 × 384** becomes *two* factors, `U` and `V`. ~~Three~~ Two. See [the paper](https://arxiv.org/abs/2510.25977),
https://example.org/a_b_c, and snake_case_names.

## Steps

1. Gather the Gram matrix
   - on a text
   - in **fp64**
2. Whiten it
3. Cut after rank `r`

```python
def factors(w, r):
    u, s, vt = svd(w)  # <b>not bold</b>
    return u[:, :r] * s[:r], vt[:r]
```

| matrix | rank | bytes |
|:-------|:----:|------:|
| gate   | 96   | 135 kB |
| down   | 128  | 180 kB |

> Errors are weighed by how large
> the inputs are.

---

Done."""

ATTACK = """<img src=x onerror="window.attacked=1"><script>window.attacked=1</script>
<svg onload="window.attacked=1"> <iframe srcdoc="<script>parent.attacked=1</script>"></iframe>

[click](javascript:window.attacked=1) [data](data:text/html,<script>1</script>) [tab](java\tscript:window.attacked=1)
[entity](javascript&#58;window.attacked=1) <javascript:window.attacked=1> [relative](/v1/models)
![picture](https://outside.example/p.png) [quote](https://ok.example/"onmouseover="window.attacked=1)

# <b onclick=window.attacked=1>heading</b>

| <i onclick=window.attacked=1>a</i> | b |
|---|---|
| <script>window.attacked=1</script> | `</code><script>window.attacked=1</script>` |

```"><script>window.attacked=1</script>
</code></pre><script>window.attacked=1</script>
```

- <a href="javascript:window.attacked=1">link</a>"""

# Marks that never close, and deep nesting. Nothing of this may take long or overflow the stack.
HOSTILE = "\n\n".join(["*a " * 60000, "[" * 20000, "".join("`" * (i % 60 + 1) + "a" for i in range(3000)), "> " * 3000 + "deep", "**_" * 30000,
                       "- " * 2000 + "x", "| a " * 500 + "|\n" + "|---" * 500 + "|", "https://" * 1000, "#" + " " * 50000 + "x", "~~a " * 60000])


def matrix(inputs, rank, outputs, bits=8):
    weights = rank * (inputs + outputs)
    return {"in_features": inputs, "rank": rank, "out_features": outputs, "kept_share": weights / (384 * 1024), "bytes": weights * bits // 8}


def layer(i):
    rank, neurons = 192 + 32 * (i % 5), 1024 - 64 * (i % 3)
    parts = {"gate": matrix(384, rank, neurons), "up": matrix(384, rank, neurons), "down": matrix(neurons, rank, 384)}
    return {"neurons": neurons, "kept_share": sum(part["kept_share"] for part in parts.values()) / 3,
            "bytes": sum(part["bytes"] for part in parts.values()), **parts}


# The output of `neuronmm inspect --json` with the fields that the server adds.
MODEL = {"model": "stand-in", "architecture": "LlamaForCausalLM", "hidden_size": 384, "intermediate_size": 1024, "num_hidden_layers": 12,
         "dtypes": "I8, BF16", "weights": "int8", "bits_per_weight": 8.15, "parameters": 135000000, "bytes": 118000000,
         "layers": [layer(i) for i in range(12)], "compression": {"form": "uv", "method": "whitened", "ratio": 0.3},
         "form": "uv", "context_length": 4096, "dense_bytes": 269000000, "device": "cpu", "version": "9.9.9",
         "defaults": {"temperature": 0.7, "top_p": 0.9, "nothing the page knows": 1}}

BOUNDS = [0.01, 0.05, 0.1, 0.5, 1, 5]


class Script:
    """The answer to a message."""

    def __init__(self, text="", pause=0.0, thought="", finish="stop", error=None, cut=False, piece=0, whole=False):
        self.text, self.pause, self.thought, self.finish = text, pause, thought, finish
        self.error, self.cut, self.piece, self.whole = error, cut, piece, whole


SCRIPTS = {
    "markdown": Script(MARKDOWN),
    "slow markdown": Script(MARKDOWN, pause=0.01),
    "attack": Script(ATTACK),
    "hostile": Script(HOSTILE, whole=True),
    "slow": Script(" ".join(f"word{i}." for i in range(400)), pause=0.05),
    "think": Script("Four.", thought="Two and two …"),
    "limit": Script("This goes on and", finish="length"),
    "break": Script("Half of it", error={"message": "The engine ran out of memory.", "type": "server_error", "code": None}),
    "cut": Script("Half of a", cut=True),
    "pieces": Script("Grüße, 世界 🌍!\n\nA second paragraph.", piece=3),
    "far link": Script("[here](https://outside.example/)"),
}


class StandIn(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.reset()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # browsers drop connections

    def reset(self):
        self.bodies, self.gone, self.key, self.model, self.metrics = [], 0, None, MODEL, True
        self.full = self.loading = False
        self.tokens, self.requests, self.running = 0, 0, 0

    def metrics_text(self):
        name = 'model_name="stand-in",engine="0"'
        lines = [f"vllm:num_requests_running{{{name}}} {self.running}", f"vllm:num_requests_waiting{{{name}}} 3",
                 f"vllm:kv_cache_usage_perc{{{name}}} 0.25", f"vllm:generation_tokens_total{{{name}}} {self.tokens}",
                 f"vllm:prompt_tokens_total{{{name}}} {3 * self.tokens}", f"vllm:prefix_cache_queries_total{{{name}}} {4 * self.tokens}",
                 f"vllm:prefix_cache_hits_total{{{name}}} {self.tokens}"]
        for metric in ("time_to_first_token_seconds", "inter_token_latency_seconds"):
            for i, bound in enumerate(BOUNDS):
                lines.append(f'vllm:{metric}_bucket{{le="{bound}",{name}}} {self.tokens * i // (len(BOUNDS) - 1)}')
            lines.append(f'vllm:{metric}_bucket{{le="+Inf",{name}}} {self.tokens}')
        self.tokens += 50
        return "# HELP vllm:num_requests_running Requests that run.\n# TYPE vllm:num_requests_running gauge\n" + "\n".join(lines) + "\n"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, status, kind, body, headers=()):
        body = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        for name, value in [("Content-Type", kind), ("Content-Length", len(body)), *headers]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, message, headers=()):
        self.send(status, "application/json", json.dumps({"error": {"message": message, "type": "t", "param": None, "code": None}}), headers)

    def allowed(self):
        if self.server.loading:
            self.refuse(503, "The model is being loaded.")
            return False
        if self.server.key in (None, self.headers.get("Authorization", "").removeprefix("Bearer ")):
            return True
        self.refuse(401, "The API key is wrong.")
        return False

    def do_GET(self):
        self.server.requests += 1
        if self.path == "/":
            self.send(200, "text/html; charset=utf-8", PAGE.read_bytes(), [("Content-Security-Policy", POLICY)])
        elif self.path == "/metrics" and self.server.metrics:
            self.send(200, "text/plain; version=0.0.4", self.server.metrics_text())
        elif self.path == "/v1/models" and self.allowed():
            self.send(200, "application/json", json.dumps({"data": [{"id": "stand-in", "max_model_len": 4096}]}))
        elif self.path == "/v1/model" and self.server.model and self.allowed():
            self.send(200, "application/json", json.dumps(self.server.model))
        elif self.path not in ("/v1/models", "/v1/model"):
            self.refuse(404, "There is nothing here.")
        elif not self.server.model:
            self.refuse(404, "There is nothing here.")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        if not self.allowed():
            return
        if self.server.full:
            self.refuse(429, "The queue is full.", [("Retry-After", "7")])
            return
        last = body["messages"][-1]["content"]
        self.server.running += 1
        try:
            self.stream(SCRIPTS.get(last, Script(f"You said: {last}")))
        except (BrokenPipeError, ConnectionResetError):
            self.server.gone += 1
        self.server.running -= 1
        self.close_connection = True

    def stream(self, script):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.event(script, {"role": "assistant", "content": ""}, 0)
        self.wfile.write(b": ping\n\n")
        tokens = [script.text] if script.whole else script.text.split(" ")
        if script.thought:
            self.event(script, {"reasoning_content": script.thought}, 1)
        for i, token in enumerate(tokens):
            time.sleep(script.pause)
            self.event(script, {"content": token if i == 0 else " " + token}, i + 1)
        if script.error:
            self.data(script, {"error": script.error})
        if script.error or script.cut:
            return
        self.event(script, {}, len(tokens), script.finish)
        self.data(script, {"choices": [], "usage": self.usage(len(tokens))})
        self.wfile.write(b"data: [DONE]\n\n")

    @staticmethod
    def usage(tokens):
        return {"prompt_tokens": 30, "completion_tokens": tokens, "prompt_tokens_details": {"cached_tokens": 16}}

    def event(self, script, delta, tokens, finish=None):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        self.data(script, {"choices": [choice], "usage": self.usage(tokens)})

    def data(self, script, value):
        text = f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()
        for i in range(0, len(text), script.piece or len(text)):
            self.wfile.write(text[i:i + (script.piece or len(text))])
            self.wfile.flush()
            if script.piece:
                time.sleep(0.001)
