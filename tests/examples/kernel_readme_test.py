#!/usr/bin/env python3
"""Runs the commands of examples/kernel/README.md and compares what they print with what the page shows.

usage: NEURONMM=PROGRAM kernel_readme_test.py

A line "..." of the page stands for any lines. The table at the end must have the figures of the reports.
"""

import functools
import os
import pathlib
import re
import subprocess
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = (REPOSITORY / "examples/kernel/README.md").read_text(encoding="utf-8")
# The steps whose kernels are wrong, on purpose.
FAILING = ("step1", "step2")


def shown() -> dict[str, list[str]]:
    """Returns the lines below each command of the page."""
    blocks = re.findall(r"^```\n\$ (.*?)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return {command: output.splitlines() for command, output in blocks}


@functools.cache
def printed(command: str) -> tuple[int, list[str]]:
    assert command.startswith("neuronmm ")
    done = subprocess.run(
        ["bash", "-c", f'"$NEURONMM" {command.removeprefix("neuronmm ")}'],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


class KernelReadme(unittest.TestCase):
    def test_every_command_prints_what_the_page_shows(self) -> None:
        commands = shown()
        self.assertEqual(len(commands), 5)
        for command, lines in commands.items():
            code, output = printed(command)
            self.assertEqual(code, 1 if any(step in command for step in FAILING) else 0, output)
            rest = iter(output)
            for line in lines:
                if line != "...":
                    self.assertIn(line, rest, f"{command} prints:\n" + "\n".join(output))

    def test_the_table_has_the_figures_of_the_reports(self) -> None:
        for command in shown():
            step = re.search(r"kernel/(step\d\w*\.py)", command)
            assert step
            row = re.search(rf"^\| {step[1]} \| (.*) \|$", PAGE, re.MULTILINE)
            if any(name in command for name in FAILING):
                self.assertIsNone(row)
                continue
            report = "\n".join(printed(command)[1])
            figures = [re.search(pattern, report) for pattern in (r"latency +(\S+) us", r"total +(\S+) MiB", r"MFU +(\S+) %")]
            assert row and all(figures)
            self.assertEqual(row[1].split(" | "), [figure[1] for figure in figures if figure])


if __name__ == "__main__":
    unittest.main()
