#!/usr/bin/env python3
"""Measures the table of docs/measurements/quality.md: one model in every form, by every method and at several
sizes, each compared with the dense model.

    bench/quality.py DENSE WORK --calibration TEXT [--calibration TEXT] --text NAME=FILE [--text NAME=FILE]
                     [--rows PATTERN] [--kept .9,.8] [--windows 24] [--context 1024] [--tasks DATA] [--speed] [--print-only]

DENSE is the folder of the dense model. WORK keeps the finished rows, each in a file WORK/NAME.json,
and the next call measures only the missing rows. The statistics of the calibration texts are
gathered once, in WORK/statistics. A text must not be used both for calibration and for measurement;
otherwise `neuronmm perplexity` writes a note into the row's file. Compressed models are deleted
after they are measured, unless --keep-models is given.

The first table has three columns for each text. The first is the mean KL(dense || compressed) in
nats per token with half of its 95 % interval, for which windows are the samples. The others are the
perplexity, and how often both models choose the same token. The files of the rows also hold the
accuracy over all items of six tasks (--tasks)
and the speed of prefill and decode in tokens/s (--speed). The second table has KL alone, with one
column for each share of the parameters that is kept.
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
SHARE_TOLERANCE = .002  # shares that differ by less count as equal


def rows_of(kept: str) -> dict[str, list[str]]:
    """Returns the flags of `neuronmm compress` by the name of the row, FORM-METHOD-SIZES[-int8|-int4]."""
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
        learnt = ["--form", form, "--method", "two-sided", "--allocate", "measured", "--reconstruct", "auto"]
        rows[f"{form}-two-sided-measured-learnt"] = learnt
    ratio = f"{1 - float(kept):.4g}"
    off = {name: [] if "--reconstruct" in flags else ["--reconstruct", "off"] for name, flags in rows.items()}
    return {f"{kept}-{name}": ["--ratio", ratio, *flags, *off[name]] for name, flags in rows.items()}


def run(command: list, log: pathlib.Path) -> float:
    """Runs a command and returns its seconds. Its output goes to `log`."""
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
        except RuntimeError as error:  # the form has no such sizes; the log says which
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
        """Prints KL of all texts by the share that is kept. The actual share is in brackets if
        block sizes make it differ.
        """
        print("\n| " + " | ".join(["row", *shares]) + " |\n|---" + "|---" * len(shares) + "|")
        for name in dict.fromkeys(name.split("-", 1)[1] for name in names):
            cells = []
            for kept in shares:
                finished = self.work / f"{kept}-{name}.json"
                row = json.loads(finished.read_text()) if finished.exists() else None
                cells.append(" / ".join(f"{found['kl']:.3f}" for found in row["texts"].values()) if row else "")
                if row and abs(kept_share(row) - float(kept)) >= SHARE_TOLERANCE:
                    cells[-1] += f" ({kept_share(row):.3f})"
            if any(cells):
                print(f"| {name} | " + " | ".join(cells) + " |")


def kept_share(row: dict) -> float:
    # Gate, up and down have as many elements each.
    shares = [matrix["kept_share"] for matrix in row["compress"]["matrices"]]
    return sum(shares) / len(shares)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dense", type=pathlib.Path, metavar="DENSE", help="folder of the dense model")
    parser.add_argument("work", type=pathlib.Path, metavar="WORK", help="folder for finished rows and models")
    parser.add_argument("--calibration", action="append", default=[], required=True, metavar="TEXT",
                        help="text file for the calibration of compress; repeatable")
    parser.add_argument("--calibration-tokens", default="32768", help="number of calibration tokens (default 32768)")
    parser.add_argument("--text", action="append", default=[], required=True, metavar="NAME=FILE",
                        help="text file to measure on, and its name in the table; repeatable")
    parser.add_argument("--kept", default=".95,.9,.8,.7,.5",
                        help="shares of the MLPs' parameters to keep, separated by commas (default .95,.9,.8,.7,.5)")
    parser.add_argument("--rows", default="*", help="shell patterns of the rows to measure, separated by commas (default: all rows)")
    parser.add_argument("--windows", default="24", help="number of windows of each text (default 24)")
    parser.add_argument("--context", default="1024", help="tokens in a window (default 1024)")
    parser.add_argument("--tasks", help="folder of task files; measures accuracies, too")
    parser.add_argument("--speed", action="store_true", help="measure the speed of every model, too")
    parser.add_argument("--keep-models", action="store_true", help="keep the compressed models in WORK")
    parser.add_argument("--print-only", action="store_true", help="print the finished rows and measure nothing")
    parser.add_argument("--neuronmm", default=str(ROOT / "build/release/neuronmm"),
                        help="program to run (default build/release/neuronmm)")
    flags = parser.parse_args()
    flags.work.mkdir(parents=True, exist_ok=True)
    bench = Bench(flags)
    rows = {name: of for kept in flags.kept.split(",") for name, of in rows_of(kept).items()
            if any(fnmatch.fnmatch(name, pattern) for pattern in flags.rows.split(","))}
    if not flags.print_only:
        for name, row_flags in rows.items():
            bench.make_row(name, row_flags)
    if not any((flags.work / f"{name}.json").exists() for name in rows):
        sys.exit(f"none of {len(rows)} rows could be measured, see {bench.log}")
    bench.print_table(list(rows))
    if "," in flags.kept:
        bench.print_shares(flags.kept.split(","), list(rows))


if __name__ == "__main__":
    main()
