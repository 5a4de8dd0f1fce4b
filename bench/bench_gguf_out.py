#!/usr/bin/env python3
"""Compares GGUF files of `neuronmm export --calibration` with those of llama-quantize and an importance matrix.

    bench/bench_gguf_out.py DENSE calibration.txt wiki.test.raw c4.txt --neuronmm build/release/neuronmm --llama BIN
        --types Q4_0,Q4_K --tokens 32768 --limit 24 --work scratch

DENSE is a folder in fp32 whose weights lie on no 4-bit grid (bench/off_grid.py DENSE OUT noise). BIN has
llama-imatrix and llama-quantize. Both programs see the same calibration text: llama-imatrix reads TOKENS / 512 chunks
of it. Both files of a type are imported in fp32, so that only weights differ from the dense model, and
`neuronmm perplexity --reference` measures the divergence. Finished files and figures in the folder WORK are used again.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys

CHUNK = 512
# The names under which llama-quantize knows the mixes.
LLAMA_NAMES = {"Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M"}


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr[-2000:]}")


def made(path, *command):
    """Runs the command unless its output exists, and returns the output's path."""
    if not path.exists():
        run(*command)
    return path


def divergence(arguments, model, text):
    """Returns the KL divergence from the dense model, in nats per token, and half of its 95 % interval."""
    report = arguments.work / f"{model.stem}.{text.name}.{arguments.limit}.json"
    if not report.exists():
        folder = arguments.work / f"{model.stem}-f32"
        shutil.rmtree(folder, ignore_errors=True)
        run(arguments.neuronmm, "import", model, "-o", folder, "--dtype", "f32")
        run(arguments.neuronmm, "perplexity", folder, text, "--reference", arguments.dense, "--context",
            arguments.context, "--limit", arguments.limit, "--json", report)
        shutil.rmtree(folder)
    measured = json.loads(report.read_text())
    low, high = measured["kl_interval"]
    return measured["kl"], (high - low) / 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dense", type=pathlib.Path, metavar="DENSE", help="folder of the dense model in fp32")
    parser.add_argument("calibration", type=pathlib.Path, metavar="CALIBRATION", help="text that both programs read")
    parser.add_argument("texts", type=pathlib.Path, nargs="+", metavar="TEXT", help="texts to measure the divergence on")
    parser.add_argument("--neuronmm", type=pathlib.Path, default="build/release/neuronmm",
                        help="program to run (default build/release/neuronmm)")
    parser.add_argument("--llama", type=pathlib.Path, required=True, metavar="BIN",
                        help="folder of llama-imatrix and llama-quantize")
    parser.add_argument("--types", default="Q4_0,Q4_K", help="types to compare, separated by commas (default %(default)s)")
    parser.add_argument("--tokens", type=int, default=32768, help="tokens of calibration (default %(default)s)")
    parser.add_argument("--context", type=int, default=1024, help="tokens in a window (default %(default)s)")
    parser.add_argument("--limit", type=int, default=24, help="windows of each text (default %(default)s)")
    parser.add_argument("--work", type=pathlib.Path, required=True, metavar="WORK",
                        help="folder for files and figures, which are used again")
    arguments = parser.parse_args()
    for program in (arguments.neuronmm, arguments.llama / "llama-imatrix", arguments.llama / "llama-quantize"):
        if not shutil.which(program):
            parser.error(f"{program}: no such program; --neuronmm names ours, and --llama the folder of llama.cpp's")
    work = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    export = [arguments.neuronmm, "export", arguments.dense, "--target", "gguf"]
    floats = made(work / "dense.gguf", *export, "--type", "F32", "-o", work / "dense.gguf")
    importance = made(work / "importance.gguf", arguments.llama / "llama-imatrix", "-m", floats, "-f",
                      arguments.calibration, "-c", CHUNK, "--chunks", arguments.tokens // CHUNK, "-o",
                      work / "importance.gguf")
    print("| type | MB, llama-quantize | MB, ours | text | KL, llama-quantize | KL, ours | ratio |")
    print("|---|---|---|---|---|---|---|")
    for name in arguments.types.split(","):
        theirs = made(work / f"llama-{name}.gguf", arguments.llama / "llama-quantize", "--imatrix", importance, floats,
                      work / f"llama-{name}.gguf", LLAMA_NAMES.get(name, name))
        ours = made(work / f"ours-{name}.gguf", *export, "--type", name, "--calibration", arguments.calibration,
                    "--calibration-tokens", arguments.tokens, "--statistics", work / "statistics", "-o",
                    work / f"ours-{name}.gguf")
        for text in arguments.texts:
            kl = [divergence(arguments, model, text) for model in (theirs, ours)]
            sizes = [f"{model.stat().st_size / 1e6:.1f}" for model in (theirs, ours)]
            print(f"| {name} | {sizes[0]} | {sizes[1]} | {text.name} | {kl[0][0]:.4f} ± {kl[0][1]:.4f} | "
                  f"{kl[1][0]:.4f} ± {kl[1][1]:.4f} | {kl[1][0] / kl[0][0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
