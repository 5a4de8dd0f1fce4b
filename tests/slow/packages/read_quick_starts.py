#!/usr/bin/env python3
"""Prints the commands of the README's quick starts, one a line, each after the number of its quick start."""

import pathlib
import re

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


def main() -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## Quick start (\d)(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    assert [number for number, _ in sections] == ["1", "2", "3"], sections
    for number, section in sections:
        commands = re.findall(r"^\$ (.*)$", section, re.MULTILINE)
        assert len(commands) >= 3, f"README.md: expected 3 commands in quick start {number}, found {commands}"
        for command in commands:
            print(number, command)


if __name__ == "__main__":
    main()
