#!/usr/bin/env python3
"""The table of docs/quality.md: a model in every form, by every method, at several sizes, each measured against the dense one.

    bench/quality.py DENSE WORK --calibration TEXT [--calibration TEXT] --text NAME=FILE [--text NAME=FILE]
                     [--rows PATTERN] [--kept .9,.8] [--windows 24] [--context 1024] [--tasks DATA] [--speed] [--print-only]

DENSE is a model folder, WORK keeps what is finished: a row is a file WORK/NAME.json, and the next call goes on with the rows
that have none. The calibration texts are gathered once, in WORK/statistics. No text may be both a calibration text and one
that is measured on: `neuronmm perplexity` says so in the row's file. Compressed models are deleted when they are measured;
--keep-models leaves them in WORK.

Columns: mean KL(dense || compressed) in nats per token with half of its 95 % interval (windows as samples), perplexity, how
often both models choose the same token, the size of the model; with --tasks accuracy over all items of six tasks; with
--speed prefill of 512 and decode, tokens/s beside the dense model's in the same run. A second table has KL alone, a column for
each share that is kept.
"""

import argparse
import fnmatch
import json
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TASKS = "openbookqa,winogrande,piqa,hellaswag,arc_easy,arc_challenge"
FORMS = ("uv", "pivoted", "narrow", "neurons", "mixed")
METHODS = ("whitened", "two-sided")
NEAR = .002  # shares of parameters that a reader would call the same


def rows_of(kept: str) -> dict[str, list[str]]:
    """The flags of `neuronmm compress` by the row's name, FORM-METHOD-SIZES[-int8|-int4]."""
    rows = {
        "paper": ["--paper"],
        "uv-svd-uniform": ["--form", "uv", "--method", "svd"],
    }
    for form in FORMS:
        for method in METHODS:
            for sizes in ("uniform", "predicted"):
                rows[f"{form}-{method}-{sizes}"] = ["--form", form, "--method", method, "--allocate", sizes]
    for form in FORMS:
        rows[f"{form}-two-sided-measured"] = ["--form", form, "--method", "two-sided", "--allocate", "measured"]
        for bits in ("8", "4"):
            flags = ["--form", form, "--method", "two-sided", "--allocate", "predicted", "--bits", bits]
            rows[f"{form}-two-sided-predicted-int{bits}"] = flags
    ratio = f"{1 - float(kept):.4g}"
    return {f"{kept}-{name}": ["--ratio", ratio, *flags] for name, flags in rows.items()}


def run(command: list, log: pathlib.Path) -> float:
    """Seconds that it took; what it says goes to `log`."""
    start = time.monotonic()
    with log.open("a") as out:
        print("$", *command, file=out, flush=True)
        done = subprocess.run([str(word) for word in command], stdout=out, stderr=out, check=False)
    if done.returncode == 130 or done.returncode < 0:
        sys.exit(f"{command[1]} was interrupted")
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command[:3]))}: exit code {done.returncode}, see {log}")
    return time.monotonic() - start


class Bench:
    def __init__(self, flags: argparse.Namespace):
        self.flags = flags
        self.work = flags.work
        self.log = self.work / "log.txt"
        self.texts = dict(text.split("=", 1) for text in flags.text)

    def calibration(self, row_flags: list[str]) -> list:
        texts = [word for text in self.flags.calibration for word in ("--calibration", text)]
        tokens = ["--calibration-tokens", self.flags.calibration_tokens]
        if "svd" in row_flags:
            return []
        return [*texts, *tokens, "--statistics", self.work / "statistics"]

    def measure(self, model: pathlib.Path) -> dict:
        result: dict = {"texts": {}}
        report = self.work / "report.json"
        for name, text in self.texts.items():
            command = [self.flags.neuronmm, "perplexity", model, text, "--reference", self.flags.dense,
                       "--context", self.flags.context, "--limit", self.flags.windows, "--json", report]
            run(command, self.log)
            result["texts"][name] = json.loads(report.read_text())
        if self.flags.tasks:
            run([self.flags.neuronmm, "eval", model, "--data", self.flags.tasks, "--tasks", TASKS, "--json", report],
                self.log)
            result["tasks"] = json.loads(report.read_text())
        if self.flags.speed:
            result["speed"] = {}
            for name, folder in (("dense", self.flags.dense), ("this", model)):
                run([self.flags.neuronmm, "bench", folder, "--prompt-tokens", "512", "--new-tokens", "64", "--runs", "5",
                     "--json", report], self.log)
                result["speed"][name] = json.loads(report.read_text())
        return result

    def make_row(self, name: str, row_flags: list[str]) -> None:
        finished = self.work / f"{name}.json"
        if finished.exists():
            return
        print(name, end=" ", flush=True)
        model, report = self.work / name, self.work / "compress.json"
        try:
            seconds = run([self.flags.neuronmm, "compress", self.flags.dense, "-o", model, *row_flags, "--no-measure",
                           *self.calibration(row_flags), "--force", "--json", report], self.log)
        except RuntimeError as error:  # sizes that the form does not have; the log says which
            print(error)
            return
        result = {"flags": row_flags, "seconds": seconds, "compress": json.loads(report.read_text()), **self.measure(model)}
        finished.write_text(json.dumps(result, indent=1))
        if not self.flags.keep_models:
            shutil.rmtree(model)
        print(f"{seconds:.0f} s", *(f"{text} {found['kl']:.4f}" for text, found in result["texts"].items()), flush=True)

    def print_table(self, names: list[str]) -> None:
        texts = list(self.texts)
        header = ["row", "kept", "MB", "s"]
        header += [f"{what} {text}" for text in texts for what in ("KL", "perplexity", "same token")]
        print("| " + " | ".join(header) + " |\n" + "|---" * len(header) + "|")
        for name in names:
            finished = self.work / f"{name}.json"
            if not finished.exists():
                continue
            row = json.loads(finished.read_text())
            megabytes = row["compress"]["bytes_after"] / 1e6
            cells = [name, f"{kept_share(row):.3f}", f"{megabytes:.0f}", f"{row['seconds']:.0f}"]
            for text in texts:
                found = row["texts"][text]
                half = (found["kl_interval"][1] - found["kl_interval"][0]) / 2
                cells += [f"{found['kl']:.4f} ± {half:.4f}", f"{found['perplexity']:.2f}", f"{found['top1_agreement']:.3f}"]
            print("| " + " | ".join(cells) + " |")

    def print_shares(self, shares: list[str], names: list[str]) -> None:
        """KL of all texts by what is kept; in brackets what really is, where sizes in blocks are far from it."""
        print("\n| " + " | ".join(["row", *shares]) + " |\n|---" + "|---" * len(shares) + "|")
        for name in dict.fromkeys(name.split("-", 1)[1] for name in names):
            cells = []
            for kept in shares:
                finished = self.work / f"{kept}-{name}.json"
                row = json.loads(finished.read_text()) if finished.exists() else None
                cells.append(" / ".join(f"{found['kl']:.3f}" for found in row["texts"].values()) if row else "")
                if row and abs(kept_share(row) - float(kept)) >= NEAR:
                    cells[-1] += f" ({kept_share(row):.3f})"
            if any(cells):
                print(f"| {name} | " + " | ".join(cells) + " |")


def kept_share(row: dict) -> float:
    shares = [matrix["kept_share"] for matrix in row["compress"]["matrices"]]  # gate, up, down: one size
    return sum(shares) / len(shares)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dense", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--calibration", action="append", default=[], required=True)
    parser.add_argument("--calibration-tokens", default="32768")
    parser.add_argument("--text", action="append", default=[], required=True, metavar="NAME=FILE")
    parser.add_argument("--kept", default=".95,.9,.8,.7,.5")
    parser.add_argument("--rows", default="*", help="names as a shell pattern, several with commas")
    parser.add_argument("--windows", default="24", help="of each text")
    parser.add_argument("--context", default="1024", help="tokens of a window")
    parser.add_argument("--tasks", help="folder of task files: also accuracies")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--keep-models", action="store_true")
    parser.add_argument("--print-only", action="store_true")
    parser.add_argument("--neuronmm", default=str(ROOT / "build/release/neuronmm"))
    flags = parser.parse_args()
    flags.work.mkdir(parents=True, exist_ok=True)
    bench = Bench(flags)
    rows = {name: of for kept in flags.kept.split(",") for name, of in rows_of(kept).items()
            if any(fnmatch.fnmatch(name, pattern) for pattern in flags.rows.split(","))}
    if not flags.print_only:
        for name, row_flags in rows.items():
            bench.make_row(name, row_flags)
    bench.print_table(list(rows))
    if "," in flags.kept:
        bench.print_shares(flags.kept.split(","), list(rows))


if __name__ == "__main__":
    main()
