#!/usr/bin/env python3
"""Measures how fast neuronmm and its peers read a prompt and write behind it, in turns, on one machine.

  bench/bench_peers.py --neuronmm build/release/neuronmm --neuronmm-model 4bit=small --neuronmm-model bf16=MODEL_DIR
      --llama-bench llama.cpp/llama-bench --llama-model Q4_0=model-Q4_0.gguf
      --ik-bench ik_llama.cpp/llama-bench --ik-model Q4_0=model-Q4_0.gguf
      --openvino-python venv/bin/python --openvino-model Q8_0:bf16=model-Q8_0.gguf --openvino-model Q4_0:f32=model-Q4_0.gguf
  bench/bench_peers.py ... --only llama.cpp,ik_llama.cpp --lengths 512 --runs 1
  bench/bench_peers.py --tables speeds.csv

Every measurement is a process of its own that loads one model, warms up, reads one prompt of random tokens and writes
behind one such prompt. The processes take turns: for each length, each run asks every program with every model once.
The table has the median, the smallest and the largest number of tokens per second. The file --csv gets one line per
figure as soon as the figure is known, so a run that is stopped loses nothing. A second run appends to the file, and
--tables prints the tables of a file.

The programs differ in what they do before and around the timed part:
  neuronmm      reads the same prompt and writes once before the clock starts.
  llama.cpp     llama-bench -p, and -n -d. It reads the whole prompt once before the clock starts, for lengths up to
                --warm-up-tokens. Beyond them it runs without its warm-up, because its time hardly matters there.
  ik_llama.cpp  llama-bench -p, and -gp. It warms up with one token. Weights are repacked on loading (-rtr 1).
  OpenVINO      LLMPipeline of OpenVINO GenAI reads another prompt of the same length first, and writes two tokens. Its
                PerfMetrics give the time to the first token, which is the time of reading, and the time per output token.
The name of an OpenVINO model is FORMAT:HINT, and HINT is its inference precision, such as bf16 or f32.
"""
import argparse
import collections
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

READING, WRITING = "reading", "writing"
FIELDS = ["date", "program", "model", "what", "tokens", "run", "tokens_per_s"]

# The program that measures OpenVINO: python -c SCRIPT MODEL HINT THREADS PROMPT_TOKENS NEW_TOKENS SEED. It prints JSON.
# Both prompts begin with different tokens, so that no cache of prefixes can serve the second one.
OPENVINO = """
import json, sys
import numpy, openvino, openvino_genai
model, hint = sys.argv[1:3]
threads, prompt_tokens, new_tokens, seed = map(int, sys.argv[3:])
pipeline = openvino_genai.LLMPipeline(model, "CPU", INFERENCE_NUM_THREADS=threads, INFERENCE_PRECISION_HINT=hint)
def generate(tokens, first):
    ids = numpy.random.default_rng(seed).integers(1000, 30000, (1, prompt_tokens), dtype=numpy.int64)
    ids[0, 0] = first
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens, config.ignore_eos, config.do_sample = tokens, True, False
    inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(numpy.ones_like(ids)))
    return pipeline.generate(inputs, config).perf_metrics
generate(2, 500)
metrics = generate(new_tokens + 1, 600)
if metrics.get_num_generated_tokens() != new_tokens + 1:
    raise SystemExit(f"expected {new_tokens + 1} tokens, found {metrics.get_num_generated_tokens()}")
print(json.dumps({"ttft_ms": metrics.get_ttft().mean, "tpot_ms": metrics.get_tpot().mean}))
"""


def output_of(command):
    """Returns what the command printed, or ends with the last lines of its messages."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        messages = "\n".join(done.stderr.splitlines()[-12:])
        raise RuntimeError(f"{' '.join(command[:2])} ... ended with exit code {done.returncode}:\n{messages}")
    return done.stdout


def neuronmm(arguments, path, _name, tokens, _run):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        output_of([arguments.neuronmm, "bench", path, "--prompt-tokens", str(tokens), "--new-tokens",
                   str(arguments.new_tokens), "--runs", "1", "--threads", str(arguments.threads), "--json", report,
                   *arguments.neuronmm_args.split()])
        found = json.loads(pathlib.Path(report).read_text(encoding="utf-8"))
    found = found["runs"][0] if "runs" in found else found
    return {READING: found["prefill_tokens_per_s"], WRITING: found["decode_tokens_per_s"]}


def tokens_per_s(command):
    """Returns the speed of the only test of a llama-bench command."""
    tests = json.loads(output_of(command))
    if len(tests) != 1:
        raise RuntimeError(f"{' '.join(command)}: expected one test, found {len(tests)}")
    return tests[0]["avg_ts"]


def llama_cpp(arguments, path, _name, tokens, _run):
    command = [arguments.llama_bench, "-m", path, "-t", str(arguments.threads), "-r", "1", "-o", "json",
               *arguments.llama_args.split()]
    cold = ["--no-warmup"] if tokens > arguments.warm_up_tokens else []
    speeds = {}
    if READING in arguments.what:
        speeds[READING] = tokens_per_s([*command, "-p", str(tokens), "-n", "0", *cold])
    if WRITING in arguments.what:
        speeds[WRITING] = tokens_per_s([*command, "-p", "0", "-n", str(arguments.new_tokens), "-d", str(tokens)])
    return speeds


def ik_llama_cpp(arguments, path, _name, tokens, _run):
    command = [arguments.ik_bench, "-m", path, "-t", str(arguments.threads), "-r", "1", "-o", "json",
               *arguments.ik_args.split(), "-n", "0"]
    speeds = {}
    if READING in arguments.what:
        speeds[READING] = tokens_per_s([*command, "-p", str(tokens)])
    if WRITING in arguments.what:
        speeds[WRITING] = tokens_per_s([*command, "-p", "0", "-gp", f"{tokens},{arguments.new_tokens}"])
    return speeds


def openvino(arguments, path, name, tokens, run):
    hint = name.partition(":")[2]
    if not hint:
        raise RuntimeError(f"--openvino-model {name}=...: expected a name such as Q8_0:bf16, with the precision hint")
    found = json.loads(output_of([arguments.openvino_python, "-c", OPENVINO, path, hint, str(arguments.threads),
                                  str(tokens), str(arguments.new_tokens), str(run)]).splitlines()[-1])
    return {READING: tokens / found["ttft_ms"] * 1e3, WRITING: 1e3 / found["tpot_ms"]}


# For each program: the function that measures it, the option with its path, and the option with its models.
PROGRAMS = {
    "neuronmm": (neuronmm, "neuronmm", "neuronmm_model"),
    "llama.cpp": (llama_cpp, "llama_bench", "llama_model"),
    "ik_llama.cpp": (ik_llama_cpp, "ik_bench", "ik_model"),
    "OpenVINO": (openvino, "openvino_python", "openvino_model"),
}


def contestants(arguments):
    """Returns (program, name of the model, path of the model) for everything that takes turns."""
    chosen = []
    for program in arguments.only:
        _, path, models = PROGRAMS[program]
        if not getattr(arguments, path):
            continue
        for model in getattr(arguments, models):
            name, separator, file = model.partition("=")
            if not separator or not os.path.exists(file):
                raise SystemExit(f"--{models.replace('_', '-')} {model}: expected NAME=PATH of a model that exists")
            chosen.append((program, name, file))
    if not chosen:
        raise SystemExit("nothing to measure: give the path of a program and of a model, such as --llama-bench PATH "
                         "--llama-model NAME=PATH")
    return chosen


def measure(arguments, contestant, tokens, run):
    """Returns the lines of one measurement, and how long it took in seconds. A program that fails has no lines."""
    program, name, path = contestant
    start = time.perf_counter()
    try:
        speeds = PROGRAMS[program][0](arguments, path, name, tokens, run)
    except (RuntimeError, OSError, ValueError, LookupError) as error:
        print(f"{program} {name} at {tokens} tokens: {error}", file=sys.stderr, flush=True)
        speeds = {}
    date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    lines = [dict(zip(FIELDS, (date, program, name, what, tokens, run, f"{speeds[what]:.4g}")))
             for what in arguments.what if what in speeds]
    return lines, time.perf_counter() - start


def append(path, lines):
    if not path:
        return
    new = not os.path.exists(path) or os.path.getsize(path) == 0
    with open(path, "a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if new:
            writer.writeheader()
        writer.writerows(lines)


def take_turns(arguments):
    """Measures everything and returns all lines. What took longer than --budget is not measured again."""
    everything = []
    for tokens in arguments.lengths:
        spent = collections.Counter()
        for run in range(1, arguments.runs + 1):
            for contestant in contestants(arguments):
                if spent[contestant] > arguments.budget:
                    continue
                lines, seconds = measure(arguments, contestant, tokens, run)
                spent[contestant] += seconds if lines else float("inf")
                append(arguments.csv, lines)
                everything += lines
                found = ", ".join(f"{line['what']} {line['tokens_per_s']}" for line in lines) or "failed"
                print(f"{tokens} tokens, run {run}: {' '.join(contestant[:2])}: {found} ({seconds:.0f} s)",
                      file=sys.stderr, flush=True)
    return everything


def cell(values):
    """Returns the median, and the smallest and the largest value where there are several."""
    if not values:
        return ""
    median = f"{statistics.median(values):.4g}"
    return median if len(values) == 1 else f"{median} ({min(values):.4g} to {max(values):.4g}, {len(values)} runs)"


def print_tables(lines):
    """Prints a table for reading and one for writing, in the form of Markdown."""
    values = collections.defaultdict(list)
    for line in lines:
        values[line["what"], line["program"], line["model"], int(line["tokens"])].append(float(line["tokens_per_s"]))
    for what, behind in ((READING, "prompt of"), (WRITING, "context of")):
        lengths = sorted({tokens for kind, _, _, tokens in values if kind == what})
        rows = list(dict.fromkeys(key[1:3] for key in values if key[0] == what))
        if not rows:
            continue
        print(f"\n| {what}, tokens/s, {behind} | {' | '.join(f'{tokens:,}' for tokens in lengths)} |")
        print("|---" * (len(lengths) + 1) + "|")
        for program, model in rows:
            cells = [cell(values.get((what, program, model, tokens), [])) for tokens in lengths]
            print(f"| {program}, {model} | {' | '.join(cells)} |")


def lengths(text):
    """Returns the lengths of an option such as 64,512."""
    found = [int(length) for length in text.split(",")]
    if min(found) < 1:
        raise ValueError
    return found


def add_programs(parser):
    for program, option, kind in (("neuronmm", "neuronmm", "folder"), ("llama.cpp", "llama", "GGUF file"),
                                  ("ik_llama.cpp", "ik", "GGUF file"), ("OpenVINO", "openvino", "GGUF file or folder")):
        parser.add_argument(f"--{option}-model", action="append", default=[], metavar="NAME=PATH",
                            help=f"{kind} that {program} runs; may be given several times")
    parser.add_argument("--neuronmm", metavar="PATH", help="path of neuronmm")
    parser.add_argument("--llama-bench", metavar="PATH", help="path of llama.cpp's llama-bench")
    parser.add_argument("--ik-bench", metavar="PATH", help="path of ik_llama.cpp's llama-bench")
    parser.add_argument("--openvino-python", metavar="PATH", help="path of a Python that can import openvino_genai")
    parser.add_argument("--neuronmm-args", default="", metavar="ARGS", help="further arguments of neuronmm bench")
    parser.add_argument("--llama-args", default="", metavar="ARGS", help="further arguments of llama.cpp's llama-bench")
    parser.add_argument("--ik-args", default="-fa 1 -rtr 1", metavar="ARGS",
                        help="further arguments of ik_llama.cpp's llama-bench (default '%(default)s')")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_programs(parser)
    parser.add_argument("--only", default=",".join(PROGRAMS), metavar="NAME,...",
                        help="programs to measure (default %(default)s)")
    parser.add_argument("--what", default=f"{READING},{WRITING}", metavar="KIND,...",
                        help="reading, writing or both (default)")
    parser.add_argument("--lengths", type=lengths, default="64,512,4096,16384", metavar="N,...",
                        help="tokens of the prompt (default %(default)s)")
    parser.add_argument("--new-tokens", type=int, default=64, help="tokens to write behind the prompt (default %(default)s)")
    parser.add_argument("--runs", type=int, default=5, help="measure everything N times, in turns (default %(default)s)")
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="SECONDS",
                        help="do not repeat what took longer than this for one length (default: repeat everything)")
    parser.add_argument("--warm-up-tokens", type=int, default=1024, help="longest prompt with which llama.cpp warms up")
    parser.add_argument("--threads", type=int, default=2, help="threads of every program (default %(default)s)")
    parser.add_argument("--csv", metavar="FILE", help="append one line per figure to this file")
    parser.add_argument("--tables", metavar="FILE", help="only print the tables of this CSV file")
    arguments = parser.parse_args()
    for option, allowed in (("only", PROGRAMS), ("what", (READING, WRITING))):
        chosen = getattr(arguments, option).split(",")
        if unknown := [name for name in chosen if name not in allowed]:
            parser.error(f"--{option} {unknown[0]}: expected {', '.join(allowed)}")
        setattr(arguments, option, chosen)
    return arguments


def main():
    arguments = parse()
    if arguments.tables:
        with open(arguments.tables, encoding="utf-8", newline="") as file:
            return print_tables(csv.DictReader(file))
    return print_tables(take_turns(arguments))


if __name__ == "__main__":
    sys.exit(main())
