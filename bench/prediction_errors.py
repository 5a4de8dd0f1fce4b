#!/usr/bin/env python3
"""Prints the errors of predictions, from the tables of docs/measurements.

    bench/prediction_errors.py TABLE.csv [--by COLUMN]

TABLE has a predicted and a published time in each row: predictions_chipboost.csv, predictions_legacy.csv or
predictions_trn3.csv. Rows that lack one of both are counted only. --by prints a line for each value of COLUMN.
An error is predicted / published - 1, in percent. The band is that of `neuronmm nki`: a row is inside if the
published time is within band_percent of the predicted one.
"""

import argparse
import csv
import pathlib
import statistics
from collections.abc import Iterable

Row = dict[str, str]


def times(row: Row) -> tuple[float, float] | None:
    """Returns the predicted and the published time of a row, or None if one of them is missing."""
    for unit in ("us", "ms"):
        predicted, published = row.get(f"predicted_{unit}"), row.get(f"published_{unit}")
        if predicted and published:
            return float(predicted), float(published)
    return None


def errors(rows: Iterable[Row]) -> list[float]:
    return [100 * (both[0] / both[1] - 1) for row in rows if (both := times(row))]


def is_inside(row: Row) -> bool | None:
    """Returns whether the published time is inside the band, or None if the row says no band."""
    both, band = times(row), row.get("band_percent")
    if not both or not band:
        return None
    return abs(both[1] / both[0] - 1) <= float(band) / 100


def line(name: str, rows: list[Row]) -> str:
    found = errors(rows)
    if not found:
        return f"| {name} | {len(rows)} | 0 | | | | |"
    bands = [inside for row in rows if (inside := is_inside(row)) is not None]
    inside = f"{sum(bands)} of {len(bands)}" if bands else ""
    mean = statistics.fmean(map(abs, found))
    return f"| {name} | {len(rows)} | {len(found)} | {mean:.1f} % | {min(found):+.1f} % | {max(found):+.1f} % | {inside} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("--by", help="a column of the table")
    options = parser.parse_args()
    with open(options.table, newline="") as file:
        rows = list(csv.DictReader(file))
    print("| rows | all | with both times | mean absolute error | smallest | largest | inside the band |")
    print("|---|---|---|---|---|---|---|")
    print(line("all", rows))
    for value in sorted({row[options.by] for row in rows} if options.by else ()):
        print(line(value, [row for row in rows if row[options.by] == value]))


if __name__ == "__main__":
    main()
