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
# Tables that no program of today can make again, and why. Every other table needs a step in bench/pages.
UNCOVERED = {
    "finetune: What did not help": "The trainer with libtorch of an earlier commit made it.",
    "low_bits: 3 bits": "A local change of the program made it.",
    "low_bits: What did not help": "Builds with other constants and a prototype made it.",
    "quality: The fit of down": "Builds that forced the choices made it.",
}
# Those that the help of the script describes.
VARIABLES = set(re.findall(r"^#   ([A-Z]\w+(?:, [A-Z]\w+)*)", SCRIPT.read_text(encoding="utf-8"), re.MULTILINE))
VARIABLES = {name for names in VARIABLES for name in names.split(", ")}


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
        self.assertEqual(set(run("--uncovered").stdout.splitlines()), set(UNCOVERED))

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

    def test_a_step_fails_if_one_of_its_commands_fails(self) -> None:
        with tempfile.TemporaryDirectory() as work:
            program = pathlib.Path(work, "program")
            program.write_text('#!/bin/sh\n[ "$1" != compress ] || { echo "out of memory"; exit 1; }\n', encoding="utf-8")
            program.chmod(0o755)
            done = run("finetune", "2", WORK=work, NEURONMM=str(program))
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertRegex(done.stdout, r"step 2: failed with 1, see .*/2.txt.partial, which ends with: out of memory")
            self.assertFalse(pathlib.Path(work, "finetune/2.txt").exists())

    def test_a_server_that_ends_fails_its_step(self) -> None:
        with tempfile.TemporaryDirectory() as work:
            done = run("serving", "8", WORK=work, NEURONMM="/bin/false", QWEN_420M=work)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("/bin/false: ended before it was ready on port 18000", done.stdout)

    def test_what_is_missing_is_named(self) -> None:
        with tempfile.TemporaryDirectory() as work:
            done = run("fit", "7", WORK=work, QWEN_OFF_GRID=f"{work}/none", C4="", C4_TEST="", DATA="")
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("set QWEN_OFF_GRID DATA C4 C4_TEST", done.stdout)
            done = run("fit", "99", WORK=work)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn("99: expected a step from 1 to 8 of fit", done.stdout)
        done = run("nosuch")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("nosuch: expected one of: build ", done.stdout)

    def test_the_help_describes_every_variable(self) -> None:
        none = dict.fromkeys(VARIABLES, "")
        needed = set(re.findall(r"[A-Z]\w+", " ".join(re.findall(r"\(needs (.*)\)", run("--list", **none).stdout))))
        self.assertGreater(len(needed), 20)
        self.assertLessEqual(needed, VARIABLES)


if __name__ == "__main__":
    unittest.main()
