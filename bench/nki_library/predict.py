"""Predicts the times of the tests in nki-library that have a target, and compares them with the
targets (docs/measurements/predictions.md).

    python3 bench/nki_library/predict.py predict CHECKOUT --program build/release/neuronmm --out TABLE
    python3 bench/nki_library/predict.py predict CHECKOUT --out TABLE --column repaired_us
    python3 bench/nki_library/predict.py targets CHECKOUT --out TABLE
    python3 bench/nki_library/predict.py errors --out TABLE [--column first_us]

TABLE is docs/measurements/predictions.csv, or a new file.

`predict` simulates the rows and never reads a target. It skips rows that have a prediction already,
so that an interrupted run can be continued. `targets` adds the targets to the table. `errors` prints
the errors of the predictions.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "python"), HERE]

FIELDS = ["id", "half", "file", "row", "cores", "launched", "counts", "class", "instructions", "bound_us", "first_us",
          "first_launched_us", "target_us", "repaired_us", "repaired_class", "why_not"]  # fmt: skip
MAX_INSTRUCTIONS = 400_000
MAX_SECONDS = 60
# The rows that are quoted in the model's sources, or were seen before the predictions were
# committed. They are used for validation only.
SEEN_MLP = {(4, 2, 16384, 832), (1, 5, 16384, 832), (1, 1024, 16384, 832), (1, 512, 1024, 448)}


def is_seen(row):
    if row.file not in ("mlp_cte", "mlp_tkg"):
        return False
    batch, seqlen, hidden, intermediate = (int(n) for n in row.text.split()[1:5])
    return (batch, seqlen, hidden, intermediate) in SEEN_MLP or batch * seqlen == 1


def rows_of(checkout, keys=None):
    """Yields (id, count, row) for all rows. The count is "blind", "seen", or "again" for a row that
    occurs twice.
    """
    import checkout as reader

    reader.open_checkout(checkout)
    earlier_rows = set()
    for key in keys or [*reader.FILES, *reader.MLP_FILES]:
        for number, row in enumerate(reader.rows(key)):
            identity_of_row = (row.file, row.text.replace("cp_strided_q_slicing=True", "cp_strided_q_slicing=False"))
            counts = "seen" if is_seen(row) else "again" if identity_of_row in earlier_rows else "blind"
            earlier_rows.add(identity_of_row)
            yield f"{row.test}[{row.index}]" + (".strided" if "slicing=True" in row.text else ""), counts, row


def has_target(row):
    """Returns whether there is a target, without looking at its value."""
    return target_us(row) is not None


def target_us(row):
    value = row.target
    if isinstance(value, (tuple, list)):
        value = next((v for v in reversed(value) if v is not None), None)
    return None if not value or value < 0 else value / 1e6  # picoseconds


def half_of(identity):
    """Returns the half of a row. Repairs look only at half 0."""
    return hashlib.sha256(identity.encode()).digest()[0] & 1


def simulate(call, cores, program):
    """Traces the call for `cores` cores and times its first program."""
    from nki import launch, run
    from nki.tracer import device
    from nki.tracer.session import Session
    from nki.tracer.trace import Trace

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.trace")
        trace = Trace(path)
        grid = (cores,) if cores > 1 else ()
        session = Session(device.find("trn2"), trace, False, grid, max_instructions=MAX_INSTRUCTIONS, max_seconds=MAX_SECONDS)
        kernel = getattr(call.function, "func", call.function)
        try:
            returned = launch.execute(session, kernel, (), call.arguments)
            trace.write(run._header(session, kernel, launch.tensors_of(returned), trace))
        finally:
            trace.close()
        report = os.path.join(folder, "report.json")
        done = subprocess.run([program, "nki", "--from-trace", path, "--device", "trn2", "--json", report],
                              capture_output=True, text=True)  # fmt: skip
        if done.returncode:
            raise RuntimeError(done.stderr.strip().split("\n")[0])
        with open(report) as text:
            found = json.load(text)
    bounds = {k: 1e3 * v for k, v in found["bounds_ms"].items()}
    return {"us": 1e3 * found["latency_ms"], "bounds": bounds, "instructions": found["instructions"],
            "class": found["class"]}  # fmt: skip


def cores_of(row, launched, first):
    """Returns how many cores a row's target is assumed to be of.

    After the targets were opened: a list without a column of cores is taken to be of one core if
    there is a second list with such a column (`no_cp_unit` and `no_cp_vnc_unit`).
    """
    return row.cores or (1 if row.test.endswith("_no_cp_unit") and not first else launched)


def predict_in_process(row, program, launched_too):
    """Predicts a row in a process of its own, so that a crash affects no other row."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(5 * MAX_SECONDS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # hides what the kernels print
        result = {}
        try:
            call = row.call()
            result = {"launched": call.cores, "cores": cores_of(row, call.cores, launched_too)}
            result["own"] = simulate(call, result["cores"], program)
            if launched_too and result["cores"] != call.cores:
                result["as_launched"] = simulate(row.call(), call.cores, program)
        except BaseException as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            result["why_not"] = f"{type(error).__name__}: {error}"[:160].replace("\n", " ")
            result["place"] = f"{os.path.basename(place.filename)}:{place.lineno}"
        with os.fdopen(write, "w") as out:
            json.dump(result, out)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as text:
        answer = text.read()
    os.waitpid(child, 0)
    return json.loads(answer) if answer else {"why_not": "the process was stopped"}


def read_table(path):
    if not os.path.exists(path):
        return {}
    with open(path, newline="") as text:
        return {line["id"]: line for line in csv.DictReader(text)}


def write_table(path, lines):
    with open(path + ".new", "w", newline="") as out:
        writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines.values())
    os.replace(path + ".new", path)


def predict(options):
    lines = read_table(options.out)
    for identity, counts, row in rows_of(options.checkout, options.file):
        if not has_target(row):
            continue
        key = f"{row.file}/{identity}"
        line = lines.setdefault(key, {"id": key, "half": half_of(key), "file": row.file, "row": row.text, "counts": counts})
        if line.get(options.column) or (line.get("why_not") and options.column == "first_us" and not options.again):
            continue
        if counts == "again" or (options.half is not None and int(line["half"]) != options.half):
            continue
        found = predict_in_process(row, options.program, options.column == "first_us")
        (first_columns if options.column == "first_us" else repaired_columns)(line, found)
        print(key, line.get(options.column), found.get("place", ""), line["why_not"], flush=True)
        write_table(options.out, lines)
    write_table(options.out, lines)


def first_columns(line, found):
    line["cores"], line["launched"] = found.get("cores", ""), found.get("launched", "")
    line["why_not"] = found.get("why_not", "")
    if "own" in found:
        line["instructions"], line["class"] = found["own"]["instructions"], found["own"]["class"]
        line["bound_us"] = f"{max(found['own']['bounds'].values()):.2f}"
        line["first_us"] = f"{found['own']['us']:.2f}"
    line["first_launched_us"] = f"{found['as_launched']['us']:.2f}" if "as_launched" in found else ""


def repaired_columns(line, found):
    line["why_not"] = found.get("why_not", "")
    if "own" in found:
        line["repaired_us"], line["repaired_class"] = f"{found['own']['us']:.2f}", found["own"]["class"]


def targets(options):
    lines = read_table(options.out)
    for identity, _, row in rows_of(options.checkout):
        key = f"{row.file}/{identity}"
        if key in lines:
            lines[key]["target_us"] = f"{target_us(row):.2f}"
    write_table(options.out, lines)


def show_errors(options):
    groups = {}
    for line in read_table(options.out).values():
        if line["counts"] != options.counts or not line[options.column] or not line["target_us"]:
            continue
        if options.half is not None and int(line["half"]) != options.half:
            continue
        error = float(line[options.column]) / float(line["target_us"]) - 1
        kind = line["repaired_class" if options.column == "repaired_us" else "class"]
        for name in ("all", f"half {line['half']}", line["file"], f"{line['file']}, {kind}", kind):
            groups.setdefault(name, []).append(error)
    print(f"{'':44s} {'rows':>5s} {'mean abs':>9s} {'median':>8s} {'worst':>8s}")
    for name, found in sorted(groups.items()):
        print(f"{name:44s} {len(found):5d} {100 * sum(map(abs, found)) / len(found):7.1f} % "
              f"{100 * statistics.median(found):+6.1f} % {100 * max(found, key=abs):+6.1f} %")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["predict", "targets", "errors"], help="what to do")
    parser.add_argument("checkout", nargs="?", help="folder of a checkout of aws-neuron/nki-library")
    parser.add_argument("--out", required=True, help="CSV file of the table, which is updated")
    parser.add_argument("--program", default="build/release/neuronmm",
                        help="program that simulates (default build/release/neuronmm)")  # fmt: skip
    parser.add_argument("--column", default="first_us", choices=["first_us", "repaired_us", "first_launched_us"],
                        help="column of the predictions (default first_us)")  # fmt: skip
    parser.add_argument("--file", action="append", help="use only this test file, a key of FILES or MLP_FILES; repeatable")
    parser.add_argument("--half", type=int, choices=[0, 1], help="use only this half of the rows (default: both)")
    parser.add_argument("--counts", default="blind", choices=["blind", "seen"],
                        help="kind of rows whose errors are printed (default blind)")  # fmt: skip
    parser.add_argument("--again", action="store_true", help="predict rows again that could not be predicted before")
    options = parser.parse_args()
    if options.step != "errors" and not os.path.isdir(options.checkout or ""):
        parser.error(f"{options.step}: CHECKOUT: expected a folder, found {options.checkout or 'nothing'}")
    if options.step != "predict" and not os.path.isfile(options.out):
        parser.error(f"{options.out}: expected the table that `predict` writes, found nothing")
    {"predict": predict, "targets": targets, "errors": show_errors}[options.step](options)


if __name__ == "__main__":
    main()
