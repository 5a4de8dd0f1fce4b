#!/usr/bin/env python3
"""Loads one or two running servers of OpenAI's API with guidellm or vLLM's benchmark, and prints their figures.

    bench/bench_serve.py --tokenizer MODEL_DIR http://127.0.0.1:8000
    bench/bench_serve.py --tokenizer MODEL_DIR http://127.0.0.1:8000 http://127.0.0.1:8080    ours, then a peer's

The caller starts the servers. With two URLs, each round loads one server after the other, so that noise on a shared
machine affects both. The table has the medians over the rounds and the ratio of the first server to the second.
Every request has a random prompt of --input tokens, and every answer has --output tokens ("ignore_eos"). Each server
needs enough key-value memory for all requests at once: `neuronmm serve --kv-cache-memory 2G`, `llama-server -np 16 -c 4608`.

The tools come from PyPI. Each needs a virtual environment of its own, whose program --program names:

    python3 -m venv build/guidellm && build/guidellm/bin/pip install guidellm==0.8.1
    python3 -m venv build/vllm && build/vllm/bin/pip install "vllm[bench]==0.33.0"      several GB; then --tool vllm
"""

import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The rows of the table. TPOT is the mean time per token of an answer after the first token. Only
# vLLM's tool reports ITL, the time between two chunks.
FIGURES = ["output tokens/s", "mean TTFT ms", "p99 TTFT ms", "mean TPOT ms", "p99 TPOT ms", "p99 ITL ms", "p99 E2EL ms"]


def run(command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{shlex.join(map(str, command))} ended with {result.returncode}:\n{(result.stdout + result.stderr)[-4000:]}")


def guidellm(options, url, seed):
    """Returns the figures of one run of guidellm, which calls an answer's TPOT "inter-token latency"."""
    report = options.work / "guidellm.json"
    run([options.program, "run", "--disable-console", "--output", f"kind=json,path={report}",
         "--backend", f"kind=openai_http,target={url},request_format=/v1/completions",
         "--tokenizer", f"kind=huggingface_auto,model={options.tokenizer}",
         "--data", f"kind=synthetic_text,prompt_tokens={options.input},output_tokens={options.output}",
         "--profile", f"kind=concurrent,streams={options.concurrency}",
         "--constraint", f"kind=max_requests,count={options.requests}", "--seed", f"kind=static,value={seed}"])
    measured = json.loads(report.read_text())["benchmarks"][0]
    metrics = measured["metrics"]
    check_completed(options, url, metrics["request_totals"]["successful"])
    answers, of = measured["requests"]["successful"], lambda name: metrics[name]["successful"]
    seconds = max(one["request_end_time"] for one in answers) - min(one["request_start_time"] for one in answers)
    return {"output tokens/s": sum(one["output_tokens"] for one in answers) / seconds,
            "mean TTFT ms": of("time_to_first_token_ms")["mean"],
            "p99 TTFT ms": of("time_to_first_token_ms")["percentiles"]["p99"],
            "mean TPOT ms": of("inter_token_latency_ms")["mean"],
            "p99 TPOT ms": of("inter_token_latency_ms")["percentiles"]["p99"],
            "p99 E2EL ms": 1e3 * of("request_latency")["percentiles"]["p99"]}


def vllm(options, url, seed):
    """Returns the figures of one run of `vllm bench serve`."""
    report = options.work / "vllm.json"
    run([options.program, "bench", "serve", "--backend", "openai", "--base-url", url, "--dataset-name", "random",
         "--tokenizer", options.tokenizer, "--random-input-len", options.input, "--random-output-len", options.output,
         "--num-prompts", options.requests, "--max-concurrency", options.concurrency, "--ignore-eos", "--seed", seed,
         "--temperature", 0, "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", 99, "--disable-tqdm",
         "--save-result", "--result-dir", report.parent, "--result-filename", report.name])
    figures = json.loads(report.read_text())
    check_completed(options, url, figures["completed"])
    keys = {"output tokens/s": "output_throughput"} | {row: "_".join(row.lower().split()) for row in FIGURES[1:]}
    return {row: figures[key] for row, key in keys.items()}


def check_completed(options, url, completed):
    if completed != options.requests:
        sys.exit(f"{url}: expected {options.requests} whole answers, found {completed}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("urls", metavar="URL", nargs="+", help="a server's address without /v1; at most two")
    parser.add_argument("--tool", choices=["guidellm", "vllm"], default="guidellm")
    parser.add_argument("--program", help="the tool's program (default build/TOOL/bin/TOOL)")
    parser.add_argument("--tokenizer", metavar="DIR", required=True, help="the model folder whose tokenizer makes the prompts")
    parser.add_argument("--concurrency", type=int, default=16, help="requests at once (default %(default)s)")
    parser.add_argument("--requests", type=int, default=64, help="requests of each run (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="runs against each server (default %(default)s)")
    parser.add_argument("--input", type=int, default=128, help="tokens of each prompt (default %(default)s)")
    parser.add_argument("--output", type=int, default=128, help="tokens of each answer (default %(default)s)")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/bench_serve", help="where the tool's report goes")
    parser.add_argument("--json", metavar="FILE", help="also write the medians to this file")
    options = parser.parse_args()
    if len(options.urls) > 2:
        parser.error(f"expected at most two URLs, found {len(options.urls)}")
    options.program = options.program or str(ROOT / f"build/{options.tool}/bin/{options.tool}")
    if not pathlib.Path(options.program).is_file():
        parser.error(f"--program: {options.program} does not exist; bench/bench_serve.py --help says how to install it")
    options.work.mkdir(parents=True, exist_ok=True)
    return options


def main():
    options = parse()
    measure = {"guidellm": guidellm, "vllm": vllm}[options.tool]
    rounds = {url: [] for url in options.urls}
    for number in range(options.rounds):
        for url, runs in rounds.items():
            runs.append(measure(options, url, number))
    medians = {url: {row: statistics.median(run[row] for run in runs) for row in FIGURES if row in runs[0]}
               for url, runs in rounds.items()}
    print(f"{options.concurrency} requests at once, {options.input} tokens in, {options.output} out: medians of {options.rounds}"
          f" rounds of {options.requests} requests, {options.tool}")
    print(f"{'':16}" + "".join(f"{url:>26}" for url in medians) + ("     ratio" if len(medians) == 2 else ""))
    for row in next(iter(medians.values())):
        values = [figures[row] for figures in medians.values()]
        ratio = f"{values[0] / values[1]:>9.2f}x" if len(values) == 2 and values[1] else ""
        print(f"{row:16}" + "".join(f"{value:26.1f}" for value in values) + ratio)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(medians, indent=2) + "\n")


if __name__ == "__main__":
    main()
