#!/usr/bin/env python3
"""Measures the first table of README.md in one run and draws its picture.

    bench/first_table.py DENSE WORK --calibration TEXT --text TEXT [--fit 420M,320M] [--llama BUILD --gguf BF16.gguf]

DENSE is a model folder in f32, off the grid of any 4-bit format (bench/off_grid.py). WORK keeps the
models and the finished rows, so that an interrupted run goes on. The rows are DENSE in bf16, rounded to
8 and to 4 bits, the models of `neuronmm fit` for the budgets of --fit, and llama.cpp's files of DENSE:
BF16, Q8_0 and Q4_K_M. BUILD is a folder with llama.cpp's programs llama-quantize and
llama-bench, and BF16.gguf is DENSE as its convert_hf_to_gguf.py --outtype bf16 writes it.

Bytes are those of the weights' file. The speeds are tokens/s of a prompt of 512 tokens and of 64
new tokens. The programs take turns, and each figure is the median of --turns turns. The KL divergence
from DENSE is measured on the first --windows windows of 1,024 tokens of --text by `neuronmm
perplexity` for all rows. For that, llama.cpp's files are imported in f32. Their KL therefore lacks the
error of llama.cpp's rounded activations, while ours contains that of our own.

The script prints the table in Markdown and writes WORK/first_table.json, .csv and .svg. The last two belong into
docs/measurements, and a test compares README.md with them.
"""

import argparse
import csv
import datetime
import html
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROMPT_TOKENS, NEW_TOKENS, CONTEXT = 512, 64, 1024
OURS, THEIRS = "#c0504d", "#4878a8"
WIDTH, HEIGHT, MARGIN = 720, 400, 60


def run(command: list[str], **settings) -> str:
    """Runs a command and returns its output. A failure ends the script with the command's error."""
    print("$", " ".join(map(str, command)), flush=True)
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **settings)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


class Row:
    """A model of the table: how it is made, and how its speed is measured."""

    def __init__(self, name: str, path: pathlib.Path, make: list[str], peer: bool = False):
        self.name, self.path, self.make, self.peer = name, path, make, peer

    def weights(self) -> int:
        files = [self.path] if self.path.is_file() else self.path.glob("*.safetensors")
        return sum(file.stat().st_size for file in files)


def rows_of(options: argparse.Namespace) -> list[Row]:
    ours, work = options.neuronmm, options.work
    text = [word for name in options.calibration for word in ("--calibration", name)]
    rows = [Row("bf16", work / "bf16", [])]
    for bits in (8, 4):
        path = work / f"bits{bits}"
        rows.append(Row(f"{bits} bits", path, [ours, "quantize", options.dense, "-o", path, "--bits", bits, *text,
                                               "--statistics", work / "statistics"]))
    for budget in filter(None, options.fit.split(",")):
        path = work / f"fit{budget}"
        rows.append(Row(f"fit --bytes {budget}", path, [ours, "fit", options.dense, "-o", path, "--bytes", budget,
                                                        "--sensitivities", work / "sensitivities", *text]))
    if options.llama:
        rows.append(Row("llama.cpp BF16", options.gguf, [], peer=True))
        for kind in ("Q8_0", "Q4_K_M"):
            path = work / f"{kind}.gguf"
            make = [options.llama / "llama-quantize", options.gguf, path, kind]
            rows.append(Row(f"llama.cpp {kind}", path, make, peer=True))
    return rows


def write_bf16(dense: pathlib.Path, out: pathlib.Path) -> None:
    """Copies a folder and rounds its f32 tensors to bf16, to the nearest even value."""
    import safetensors_file  # pylint: disable=import-outside-toplevel  # only this row needs NumPy

    shutil.copytree(dense, out, ignore=shutil.ignore_patterns("*.safetensors"))
    tensors = {}
    for name, tensor in safetensors_file.read_f32(dense / "model.safetensors").items():
        bits = tensor.view("<u4")
        tensors[name] = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    safetensors_file.write(out / "model.safetensors", "BF16", tensors)
    config = json.loads((out / "config.json").read_text())
    config["torch_dtype"] = "bfloat16"
    (out / "config.json").write_text(json.dumps(config, indent=2))


def make_models(rows: list[Row], options: argparse.Namespace, known: dict) -> None:
    for row in rows:
        if row.path.exists():
            continue
        begin = time.monotonic()
        if row.make:
            run(row.make)
        else:
            write_bf16(options.dense, row.path)
        known[row.name] = {"seconds_to_make": time.monotonic() - begin}


def measure_loss(row: Row, options: argparse.Namespace) -> dict:
    folder, imported = row.path, options.work / "imported"
    if row.peer:
        run([options.neuronmm, "import", row.path, "-o", imported, "--dtype", "f32", "--force"])
        folder = imported
    report = json.loads(run([options.neuronmm, "perplexity", folder, options.text, "--reference", options.dense,
                             "--context", CONTEXT, "--limit", options.windows, "--json", "-"]))
    if row.peer:
        shutil.rmtree(imported)
    return {key: report[key] for key in ("kl", "kl_stderr", "perplexity", "reference_perplexity")}


def speeds(row: Row, options: argparse.Namespace) -> tuple[float, float]:
    """Returns tokens/s of reading a prompt and of writing, in one turn."""
    if row.peer:
        results = json.loads(run([options.llama / "llama-bench", "-m", row.path, "-t", options.threads, "-r", "1", "-p",
                                  PROMPT_TOKENS, "-n", NEW_TOKENS, "-o", "json"]))
        return (next(result["avg_ts"] for result in results if result["n_prompt"]),
                next(result["avg_ts"] for result in results if result["n_gen"]))
    report = json.loads(run([options.neuronmm, "bench", row.path, "--prompt-tokens", PROMPT_TOKENS, "--new-tokens",
                             NEW_TOKENS, "--runs", "1", "--threads", options.threads, "--json", "-"]))
    return report["prefill_tokens_per_s"], report["decode_tokens_per_s"]


def measure_speeds(rows: list[Row], options: argparse.Namespace, known: dict) -> None:
    turns = [{row.name: speeds(row, options) for row in rows} for _ in range(options.turns)]
    for row in rows:
        for index, key in enumerate(("read", "write")):
            values = sorted(turn[row.name][index] for turn in turns)
            known[row.name][key] = statistics.median(values)
            known[row.name][f"{key}_range"] = [values[0], values[-1]]


def table(rows: list[Row], known: dict) -> str:
    lines = ["| model | weights, MB | reading, tokens/s | writing, tokens/s | KL divergence, nats |", "|---|---|---|---|---|"]
    for row in rows:
        values = known[row.name]
        lines.append(f"| {row.name} | {values['bytes'] / 1e6:.0f} | {values['read']:.0f} | {values['write']:.1f} | "
                     f"{values['kl']:.4f} |")
    return "\n".join(lines)


def name_in_readme(row: Row) -> str:
    """Returns the name of a row in README.md, in which the dense model is called the original."""
    return "original, bf16" if row.name == "bf16" else row.name.replace("llama.cpp ", "llama.cpp, ")


def write_csv(path: pathlib.Path, rows: list[Row], known: dict, options: argparse.Namespace) -> None:
    names = re.findall(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    machine = f"{options.threads} cores of {names[0] if names else 'an unknown processor'}"
    with open(path, "w", newline="") as file:
        written = csv.writer(file, lineterminator="\n")
        written.writerow(["model", "weights_mb", "reading_tokens_per_s", "writing_tokens_per_s", "kl", "prompt_tokens",
                          "new_tokens", "windows", "context", "turns", "machine", "date"])  # fmt: skip
        for row in rows:
            values = known[row.name]
            written.writerow([name_in_readme(row), f"{values['bytes'] / 1e6:.0f}", f"{values['read']:.0f}",
                              f"{values['write']:.1f}", f"{values['kl']:.4f}", PROMPT_TOKENS, NEW_TOKENS,
                              options.windows, CONTEXT, options.turns, machine, datetime.date.today()])  # fmt: skip


def picture(rows: list[Row], known: dict) -> str:
    """Returns an SVG of KL divergence (logarithmic) over tokens/s of writing."""
    points = [(known[row.name]["write"], max(known[row.name]["kl"], 1e-5), row) for row in rows]
    right = max(x for x, _, _ in points) * 1.25
    low = math.floor(math.log10(min(y for _, y, _ in points)))
    high = math.ceil(math.log10(max(y for _, y, _ in points)))

    def place(x: float, y: float) -> tuple[float, float]:
        share = (math.log10(y) - low) / max(high - low, 1)
        return MARGIN + x / right * (WIDTH - 2 * MARGIN), HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN)

    marks = []
    for power in range(low, high + 1):
        _, y = place(0, 10.0**power)
        marks.append(f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/>'
                     f'<text x="{MARGIN - 6}" y="{y + 4:.0f}" text-anchor="end">{10.0**power:g}</text>')
    step = 10 ** math.floor(math.log10(right / 2))
    for count in range(int(right / step) + 1):
        x, _ = place(count * step, 10.0**low)
        marks.append(f'<text x="{x:.0f}" y="{HEIGHT - MARGIN + 18}" text-anchor="middle">{count * step:g}</text>')
    for speed, loss, row in points:
        x, y = place(speed, loss)
        marks.append(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="5" fill="{THEIRS if row.peer else OURS}"/>'
                     f'<text x="{x + 9:.0f}" y="{y + (16 if row.peer else -2):.0f}">{html.escape(row.name)}</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
            f'font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>{"".join(marks)}'
            f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle">writing, tokens per second (right is better)'
            f'</text><text transform="translate(14 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">KL divergence '
            "(down is better)</text></svg>\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dense", type=pathlib.Path, metavar="DENSE", help="folder of the dense model in f32")
    parser.add_argument("work", type=pathlib.Path, metavar="WORK", help="folder for models and finished rows")
    parser.add_argument("--calibration", required=True, action="append", metavar="TEXT",
                        help="text that sizes and rounding are chosen by; may be given several times")
    parser.add_argument("--text", required=True, metavar="TEXT", help="text to measure the KL divergence on")
    parser.add_argument("--fit", default="420M", help="budgets of `neuronmm fit`, separated by commas (default 420M)")
    parser.add_argument("--llama", type=pathlib.Path, metavar="BUILD", help="folder of llama-bench and llama-quantize")
    parser.add_argument("--gguf", type=pathlib.Path, help="DENSE in bf16 as llama.cpp converts it")
    parser.add_argument("--windows", type=int, default=24, help="windows of the text (default %(default)s)")
    parser.add_argument("--turns", type=int, default=5, help="turns of the speeds (default %(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads (default: all cores)")
    parser.add_argument("--neuronmm", type=pathlib.Path, default=ROOT / "build/release/neuronmm",
                        help="program to run (default build/release/neuronmm)")
    options = parser.parse_args()
    if bool(options.llama) != bool(options.gguf):
        parser.error("--llama and --gguf belong together")
    return options


def main() -> None:
    options = parse()
    options.work.mkdir(parents=True, exist_ok=True)
    results = options.work / "first_table.json"
    known = json.loads(results.read_text()) if results.exists() else {}
    rows = rows_of(options)
    make_models(rows, options, known)
    for row in rows:
        values = known.setdefault(row.name, {})
        values["bytes"] = row.weights()
        if "kl" not in values:
            values |= measure_loss(row, options)
            results.write_text(json.dumps(known, indent=2))
    measure_speeds(rows, options, known)
    results.write_text(json.dumps(known, indent=2))
    write_csv(options.work / "first_table.csv", rows, known, options)
    (options.work / "first_table.svg").write_text(picture(rows, known))
    print(table(rows, known))


if __name__ == "__main__":
    main()
