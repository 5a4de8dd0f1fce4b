#!/usr/bin/env python3
"""Tests the scripts that pages call: they can be run, read their options, and say what is missing."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDERS = ("bench", "deploy", "examples", "packaging", "tests", "tools")


def scripts(*folders: str) -> list[pathlib.Path]:
    found = [path for folder in folders for path in (REPOSITORY / folder).rglob("*.*") if path.suffix in (".py", ".sh")]
    return sorted(path for path in found if path.read_bytes().startswith(b"#!"))


def run(*command: str | pathlib.Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **variables}
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Scripts(unittest.TestCase):
    def test_they_can_be_run(self) -> None:
        for path in scripts(*FOLDERS):
            self.assertTrue(os.access(path, os.X_OK), f"{path}: chmod +x")

    def test_those_of_the_shell_are_well_formed(self) -> None:
        for path in [*scripts("bench", "examples", "packaging", "tools"), *(REPOSITORY / "bench/pages").glob("*.sh"), REPOSITORY / "examples/setup.sh"]:
            if path.suffix == ".sh":
                self.assertEqual(run("bash", "-n", path).stdout, "", path)

    def test_those_of_python_print_their_help_or_name_a_package(self) -> None:
        for path in scripts("bench", "examples", "packaging", "tools"):
            if path.suffix == ".py" and "argparse" in path.read_text(encoding="utf-8"):
                done = run(sys.executable, path, "--help")
                if done.returncode:
                    self.assertRegex(done.stdout, r"^[^\n]* needs:? [^\n]*\n$", path)
                else:
                    self.assertTrue(done.stdout.startswith("usage: "), path)

    def test_examples_name_a_missing_program(self) -> None:
        with tempfile.TemporaryDirectory() as work:
            for path in scripts("examples"):
                if path.suffix == ".sh":
                    done = run(path, WORK=work, NEURONMM="/nowhere/neuronmm")
                    self.assertEqual(done.returncode, 1, path)
                    self.assertEqual(
                        done.stdout,
                        "/nowhere/neuronmm: no such program; run ./demo.sh to build it, or name an installed one in NEURONMM\n",
                    )

    def test_scripts_of_bench_name_a_missing_file(self) -> None:
        for command, message in (
            (("real_model.sh", "none", "none"), "none/config.json: expected it to exist"),
            (("recovery.sh", "none", "none"), "none/text/wiki.valid.raw: expected this text, found none"),
            (("sizes.py", "/nowhere/neuronmm"), "/nowhere/neuronmm: expected the program, found nothing"),
            (("other_kernels/predict.py", "predict"), "predict: --moe: expected a folder, found nothing"),
        ):
            interpreter = sys.executable if command[0].endswith(".py") else "bash"
            done = run(interpreter, REPOSITORY / "bench" / command[0], *command[1:], NEURONMM=sys.executable)
            self.assertNotEqual(done.returncode, 0, command)
            self.assertIn(message, done.stdout)
            self.assertIsNone(re.search("Traceback", done.stdout), done.stdout)


if __name__ == "__main__":
    unittest.main()
