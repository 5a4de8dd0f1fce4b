"""Predicts the times of kernels from other repositories that were measured on a Trainium, and
compares both (docs/measurements/predictions_other.md).

    python3 bench/other_kernels/predict.py predict --moe DIR --nkilib DIR --kda DIR --accelopt DIR
    python3 bench/other_kernels/predict.py times --kda DIR
    python3 bench/other_kernels/predict.py errors [--column repaired_us]

`predict` simulates the kernels and never reads a measured time. It skips rows that have a prediction
already, so that an interrupted run can be continued. `times` adds the published times to the table.
`errors` prints the errors of the predictions.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import statistics
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "..", "..", "docs", "measurements", "predictions_other.csv")
FIELDS = ["id", "half", "family", "device", "class", "instructions", "bound_us", "first_us", "published_us", "repaired_us",
          "repaired_class", "why_not"]  # fmt: skip
MAX_SECONDS = 400


def half_of(identity):
    """Returns the half of a row. Explanations and repairs look only at half 0."""
    return hashlib.sha256(identity.encode()).digest()[0] & 1


def prediction(kernel, options, device, program, nkilib):
    """Returns the command's JSON. If the command fails, raises RuntimeError with the first line of
    its message.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        command = [program, "nki", kernel, *options, "--device", device, "--json", report]
        path = os.pathsep.join([nkilib, os.environ.get("PYTHONPATH", "")])
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=MAX_SECONDS, env={**os.environ, "PYTHONPATH": path})
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"no answer within {MAX_SECONDS} s") from None
        if done.returncode:
            raise RuntimeError(done.stderr.strip().split("\n")[0])
        with open(report) as text:
            return json.load(text)


def predict(options):
    import calls

    table = _read(options.out)
    prefix = options.column.removesuffix("us")
    for identity, family, device, call in calls.rows(options.moe, options.nkilib, options.kda, options.accelopt):
        row = table.setdefault(identity, {"id": identity, "half": half_of(identity), "family": family, "device": device})
        if options.only and not identity.startswith(options.only) or row.get(options.column) or row.get("why_not") == "seen":
            continue
        try:
            kernel, given = call()
            found = prediction(kernel, given, device, options.program, options.nkilib)
            row[options.column] = f"{1e3 * found['latency_ms']:.1f}"
            row["class" if prefix == "first_" else f"{prefix}class"] = found["class"]
            row["instructions"] = found["instructions"]
            row["bound_us"] = f"{1e3 * max(found['bounds_ms'].values()):.1f}"
            row["why_not"] = ""
        except Exception as error:
            row["why_not"] = f"{type(error).__name__}: {error}".removeprefix("RuntimeError: ").replace(options.moe, "").replace(options.kda, "")[:200]
        print(identity, row.get(options.column), row["why_not"], flush=True)
        _write(options.out, table)


def times(options):
    """Joins the times of kda-for-trainium. The times of the other repository are in logs and plots.
    They were copied by hand into predictions_other.csv, which has them for other tables.
    """
    table, known = _read(options.out), _read(TABLE)
    with open(os.path.join(options.kda, "baselines.json")) as text:
        first = {case["op"]: [case["baseline_latency_ms"]] for case in json.load(text).values()}
    for row in table.values():
        if row["family"] == "kda":
            _, problem, name = row["id"].split("/")
            found = first[problem] if name == "baseline" else _published_times(options.kda, problem, name)
            row["published_us"] = f"{1e3 * statistics.mean(found):.1f}" if found else ""
        else:
            row["published_us"] = known.get(row["id"], {}).get("published_us", "")
    _write(options.out, table)


def _published_times(kda, problem, name):
    with open(os.path.join(kda, "workspaces", problem, "benchmark.csv")) as text:
        rows = [row for row in csv.DictReader(text) if os.path.basename(row["candidate"]) == f"{name}.py"]
    return [float(row["latency_ms"]) for row in rows if row["latency_ms"]]


def errors(options):
    rows = [r for r in _read(options.out).values() if r.get("published_us") and r.get(options.column)]
    name = "class" if options.column == "first_us" else "repaired_class"
    groups = [("all", rows), *[(f"half {h}", [r for r in rows if r["half"] == h]) for h in "01"]]
    new = [r for r in rows if r["family"] != "kda"]
    groups += [("new dialect", new), *[(f"new dialect half {h}", [r for r in new if r["half"] == h]) for h in "01"]]
    for field in ("family", name):
        for half in ("", "0", "1"):
            groups += [(f"{value} {half and 'half ' + half}", [r for r in rows if r[field] == value and half in ("", r["half"])])
                       for value in sorted({r[field] for r in rows})]  # fmt: skip
    for title, chosen in groups:
        found = [float(r[options.column]) / float(r["published_us"]) - 1 for r in chosen]
        if found:
            print(f"{title:28} {len(found):4} rows  mean absolute {statistics.mean(map(abs, found)):6.1%}  "
                  f"median {statistics.median(found):+6.1%}  worst {max(found, key=abs):+7.1%}")  # fmt: skip


def _read(path):
    if not os.path.exists(path):
        return {}
    with open(path) as text:
        return {row["id"]: row for row in csv.DictReader(text)}


def _write(path, table):
    with open(path + ".part", "w", newline="") as text:
        writer = csv.DictWriter(text, FIELDS, lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(table.values())
    os.replace(path + ".part", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["predict", "times", "errors"], help="what to do")
    parser.add_argument("--moe", help="folder of a checkout of KevGomes1403/nki-moe-megakernel at bcf4f30")
    parser.add_argument("--nkilib", help="src/nkilib_src in a checkout of aws-neuron/nki-library, which nki-moe-megakernel imports")
    parser.add_argument("--kda", help="folder of a checkout of Jerry2423/kda-for-trainium")
    parser.add_argument("--accelopt", help="folder of a checkout of zhang677/AccelOpt")
    parser.add_argument("--program", default="build/release/neuronmm",
                        help="program that simulates (default build/release/neuronmm)")  # fmt: skip
    parser.add_argument("--out", default=TABLE,
                        help="CSV file of the table, which is updated (default docs/measurements/predictions_other.csv)")  # fmt: skip
    parser.add_argument("--column", default="first_us",
                        help="column of the predictions, first_us or repaired_us (default first_us)")  # fmt: skip
    parser.add_argument("--only", metavar="PREFIX", help="predict only rows whose id begins with PREFIX (default: all)")
    options = parser.parse_args()
    needed = {"predict": ("moe", "nkilib", "kda", "accelopt"), "times": ("kda",), "errors": ()}[options.what]
    for name in needed:
        if not os.path.isdir(getattr(options, name) or ""):
            parser.error(f"{options.what}: --{name}: expected a folder, found {getattr(options, name) or 'nothing'}")
    if options.what != "predict" and not os.path.isfile(options.out):
        parser.error(f"{options.out}: expected the table that `predict` writes, found nothing")
    {"predict": predict, "times": times, "errors": errors}[options.what](options)


if __name__ == "__main__":
    main()
