#!/usr/bin/env python3
"""Tests that every number of README.md stands in a table of docs/measurements, or says what the repository is.

The first table and its picture are those of first_table.csv. What the quick starts print is in quick_starts.txt. A
number in a sentence must have a source in SOURCES, which computes it from a table or looks it up.
"""

import csv
import pathlib
import re
import statistics
import unittest
from collections.abc import Callable, Iterator

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
MEASUREMENTS = REPOSITORY / "docs/measurements"
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
COLUMNS = ["model", "weights_mb", "reading_tokens_per_s", "writing_tokens_per_s", "kl"]
WORDS = ["no", "one", "two", "three", "four", "five"]


def rows_of(name: str) -> list[dict[str, str]]:
    with open(MEASUREMENTS / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


FIRST = rows_of("first_table.csv")


def closed_errors() -> list[float]:
    """Returns the absolute errors of the predictions that stayed closed, in percent."""
    rows = [row for row in rows_of("predictions_chipboost.csv") if row["half"] == "closed"]
    return [abs(100 * (float(row["predicted_us"]) / float(row["published_us"]) - 1)) for row in rows]


def model_megabytes() -> float:
    return (REPOSITORY / "models/demo/model.safetensors").stat().st_size / 1e6


# Phrases of README.md with numbers, and the functions that return the numbers from their source.
SOURCES: dict[str, Callable[[], list[str]]] = {
    r"measured on (\d{4}-\d\d-\d\d) by": lambda: [FIRST[0]["date"]],
    r"All rows are of Qwen2\.5-Coder-0\.5B-Instruct on (.*?), measured": lambda: [FIRST[0]["machine"]],
    r"a prompt of (\d+) tokens, and \"writing\" the speed of (\d+) new tokens": lambda: [
        FIRST[0]["prompt_tokens"],
        FIRST[0]["new_tokens"],
    ],
    r"Speeds are medians of (\w+) turns": lambda: [WORDS[int(FIRST[0]["turns"])]],
    r"on (\w+) windows of ([\d,]+) tokens": lambda: [
        WORDS[int(FIRST[0]["windows"])],
        f"{int(FIRST[0]['context']):,}",
    ],
    r"mean error is ([\d.]+) % on (\d+) published times": lambda: [
        f"{statistics.fmean(closed_errors()):.1f}",
        str(len(closed_errors())),
    ],
    r"bundled model of (\d+) MB": lambda: [f"{model_megabytes():.0f}"],
}
# Numbers that measure nothing: names, versions, options, definitions.
NAMES = [
    r"Qwen2\.5-Coder-0\.5B(?:-Instruct)?", r"WikiText-2", r"Debian 12", r"C\+\+20", r"Apache-2\.0", r"AVX2", r"fp32",
    r"arXiv\s+2510\.25977", r"Quick start \d", r"8, 6 or 4 bits", r"rounding to 4 bits", r"weights of 4 bits",
    r"0 is no change", r"Line 24 of the kernel", r"weights have 16 bits",
]  # fmt: skip


def squeezed(text: str) -> str:
    return " ".join(text.split())


def sentences() -> str:
    """Returns the page without its tables, code and the targets of its links."""
    text = re.sub(r"^```.*?^```$", "", README, flags=re.DOTALL | re.MULTILINE)
    text = "\n".join(line for line in text.split("\n") if not line.startswith("|"))
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return squeezed(re.sub(r"`[^`]*`", "code", text))


def blocks() -> Iterator[tuple[str, list[str]]]:
    """Yields each command of the quick starts with the lines of output that README.md shows."""
    for block in re.findall(r"^```\n(\$ .*?)^```$", README, re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.rstrip("\n").split("\n")
            yield command, [squeezed(line) for line in lines if line.strip()]


class FirstTable(unittest.TestCase):
    def test_the_table_is_that_of_the_measurement(self) -> None:
        found = re.findall(r"^\| (?!model|---)(.*) \|$", README.split("![", 1)[0], re.MULTILINE)
        rows = [[cell.strip(" `") for cell in line.split("|")] for line in found]
        self.assertEqual(rows, [[row[column] for column in COLUMNS] for row in FIRST])

    def test_the_picture_has_its_points(self) -> None:
        picture = (MEASUREMENTS / "first_table.svg").read_text(encoding="utf-8")
        circles = [(int(x), int(y)) for x, y in re.findall(r'<circle cx="(\d+)" cy="(\d+)"', picture)]
        self.assertEqual(len(circles), len(FIRST))
        speeds = [float(row["writing_tokens_per_s"]) for row in FIRST]
        order = sorted(range(len(FIRST)), key=lambda i: speeds[i])
        for slower, faster in zip(order, order[1:]):
            self.assertLessEqual(circles[slower][0], circles[faster][0], FIRST[faster]["model"])
        # The horizontal axis is linear from 0, at 60 pixels, so all points have one scale, up to half a
        # pixel and half of the last digit.
        scale = (circles[order[-1]][0] - 60) / speeds[order[-1]]
        for (x, _), speed in zip(circles, speeds):
            self.assertAlmostEqual(x, 60 + scale * speed, delta=1.5)


class QuickStarts(unittest.TestCase):
    def test_what_they_print_was_printed(self) -> None:
        table = (MEASUREMENTS / "quick_starts.txt").read_text(encoding="utf-8")
        printed = {
            part.split("\n", 1)[0]: [squeezed(line) for line in part.split("\n")[1:]]
            for part in re.split(r"^\$ ", table, flags=re.MULTILINE)[1:]
        }
        checked = 0
        for command, lines in blocks():
            if not lines:
                continue
            self.assertIn(command, printed, "run bench/quick_starts.py")
            for line in lines:
                checked += 1
                shown = line.removesuffix("...")
                self.assertTrue(
                    any(full.startswith(shown) for full in printed[command]),
                    f"{command}: {line!r} is not in docs/measurements/quick_starts.txt",
                )
        self.assertGreater(checked, 10)


class Sentences(unittest.TestCase):
    def test_numbers_have_their_source(self) -> None:
        text = sentences()
        for phrase, source in SOURCES.items():
            found = re.search(phrase, text)
            self.assertIsNotNone(found, f"README.md no longer says {phrase!r}")
            assert found
            self.assertEqual(list(found.groups()), source(), phrase)

    def test_no_other_sentence_has_a_number(self) -> None:
        text = sentences()
        for phrase in [*SOURCES, *NAMES]:
            text = re.sub(phrase, "", text)
        left = [text[max(0, m.start() - 40) : m.end() + 40] for m in re.finditer(r"\d[\d.,]*", text)]
        self.assertEqual(left, [], "add the source to SOURCES, or to NAMES if nothing is measured")


if __name__ == "__main__":
    unittest.main()
