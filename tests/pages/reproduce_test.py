#!/usr/bin/env python3
"""Tests bench/reproduce.sh: its steps belong to sections that exist, and no table without a step is added."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPT = REPOSITORY / "bench/reproduce.sh"
PAGES = sorted(path.stem for path in (REPOSITORY / "bench/pages").glob("*.sh"))
# Tables that no step makes. A new table needs a step in bench/pages, and a line that got a step is removed here.
UNCOVERED = {
    "build: Exactness",
    "cpu_speed: Compared with other programs",
    "evaluation: Agreement with the harness",
    "finetune: Few bits",
    "finetune: What did not help",
    "fit: Predictions",
    "low_bits: 3 bits",
    "low_bits: What did not help",
    "predictions: Repairs",
    "predictions_chipboost: Repairs",
    "predictions_other: Half 0, explained",
    "quality: In the calibration's own domain",
    "quality: More calibration text",
    "quality: Other models",
    "quality: Predicted and measured losses",
    "quality: Predicted and measured sizes",
    "quality: The fit of down",
    "quality: The paper's recipe",
    "quality: Time and memory of compress",
    "serving: Other protocols and prefix reuse",
    "serving: Pieces of prompts",
    "serving: Share of the limit",
}


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, *arguments], env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


class Steps(unittest.TestCase):
    def test_their_sections_are_on_the_page(self) -> None:
        for page in PAGES:
            path = REPOSITORY / f"docs/measurements/{page}.md"
            if page == "readme":
                continue  # its sections are those of README.md, which name the quick starts one by one
            titles = set(re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE))
            sections = run("--sections", page).stdout.splitlines()
            self.assertGreater(len(sections), 0, page)
            for section in sections:
                self.assertIn(section, titles, f"bench/pages/{page}.sh")

    def test_tables_without_a_step_are_known(self) -> None:
        self.assertEqual(set(run("--uncovered").stdout.splitlines()), UNCOVERED)

    def test_a_step_writes_its_output_with_what_made_it(self) -> None:
        with tempfile.TemporaryDirectory() as work:
            done = run("predictions_legacy", WORK=work)
            self.assertEqual(done.returncode, 0, done.stdout)
            text = pathlib.Path(work, "predictions_legacy/1.txt").read_text(encoding="utf-8")
            page = (REPOSITORY / "docs/measurements/predictions_legacy.md").read_text(encoding="utf-8")
            error = re.search(r"\*\*(\d+\.\d %)\*\*", page)
            assert error
            self.assertIn(error[1], text)
            self.assertRegex(text, r"# Errors\n# \d{4}-\d\d-\d\dT[\d:]+Z, commit \w+, \d+ cores of ")
            self.assertIn("is there", run("predictions_legacy", WORK=work).stdout)

    def test_what_is_missing_is_named(self) -> None:
        with tempfile.TemporaryDirectory() as work:
            done = run("fit", "4", WORK=work, QWEN=f"{work}/none", C4="", DATA="")
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("set QWEN DATA C4", done.stdout)
        done = run("nosuch")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("nosuch: expected one of: build ", done.stdout)


if __name__ == "__main__":
    unittest.main()
