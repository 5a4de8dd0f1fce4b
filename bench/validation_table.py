#!/usr/bin/env python3
"""Writes docs/measurements/simulator_validation.csv from what `neuronmm paper validation` computes.

    bench/validation_table.py [PROGRAM]      PROGRAM is build/release/neuronmm unless named
"""

import csv
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs/measurements/simulator_validation.csv"
SETS = ["calibration", "validation", "added"]
COLUMNS = ["kernel", "shape", "device", "dtype", "quantity"]


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release/neuronmm"
    report = subprocess.run([program, "paper", "validation", "--json", "-"], check=True, stdout=subprocess.PIPE)
    rows = json.loads(report.stdout)["rows"]
    with open(TABLE, "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["set", "kernel", "shape", "core", "dtype", "quantity", "published", "simulated",
                        "difference_percent", "unexplained"])  # fmt: skip
        for row in sorted(rows, key=lambda row: SETS.index(row["set"])):
            table.writerow([row["set"], *(row[name] for name in COLUMNS), f"{row['published']:.6g}",
                            f"{row['simulated']:.6g}", f"{100 * row['difference']:.1f}",
                            "yes" if row["unexplained"] else ""])  # fmt: skip
    print(f"{len(rows)} rows written to {TABLE}")


if __name__ == "__main__":
    main()
