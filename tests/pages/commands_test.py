#!/usr/bin/env python3
"""Tests that the commands of all pages work when they are typed.

usage: NEURONMM=PROGRAM commands_test.py [--slow] [--list] [PAGE ...]

Each command is compared with the commands and options of the program. Those of code blocks that need no large model
are then run, page by page, in a folder that has a small thing for each name of the page (scratch.py). --list prints
what happened to each command and why. --slow also runs those that take long.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

from page_commands import Call, Command, Description, calls_of, commands_of
from scratch import REPOSITORY, Scratch, make_templates

SECONDS_PER_COMMAND = {False: 30, True: 600}
SKIPPED_FOLDERS = {"build", ".git", "corpus", "__pycache__"}
# Programs besides neuronmm that a command line may call.
KNOWN_PROGRAMS = {"neuronmm", "echo", "printf", "cat", "head"}
# Commands whose positional arguments are no files, and those whose first one alone is.
NO_FILES = {"", "kernels", "simulate", "tune", "emit", "paper", "help", "describe", "version"}
FIRST_IS_FILE = {"generate", "chat", "tokenize"}
INPUT_OPTIONS = {
    "--calibration", "--reference", "--against", "--data", "--teacher", "--config", "--messages", "--tools",
    "--prompt-file", "--validation", "--tls-cert", "--tls-key", "--measured", "--from-trace", "--ref",
}  # fmt: skip
OUTPUT_OPTIONS = {"-o", "--output", "--out"}
# Why commands are not run in the short test; the first pattern that fits the command line counts.
SLOW = {
    r"\b(finetune|fit|tune|compare|eval)\b": "takes long",
    r"\bpaper\b": "takes long",
    r"\bbench\b": "takes long",
}


class Outcome(NamedTuple):
    command: Command
    what: str  # "run", "checked" or "wrong"
    why: str
    seconds: float = 0.0


def pages(root: pathlib.Path) -> Iterator[pathlib.Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - SKIPPED_FOLDERS)
        yield from (pathlib.Path(folder, name) for name in sorted(names) if name.endswith(".md"))


def inputs_of(call: Call) -> list[str]:
    """Returns the files and folders that a call reads."""
    files = [] if call.command in NO_FILES else call.positionals[: 1 if call.command in FIRST_IS_FILE else None]
    if call.command == "nki":
        files = [file.partition(":")[0] for file in files]
    for option, values in call.options:
        files += values if option in INPUT_OPTIONS else []
    written = {value for option, values in call.options if option in OUTPUT_OPTIONS for value in values}
    resumed = any(option == "--resume" for option, _ in call.options)
    return [*(file for file in files if file != "-"), *(written if resumed else ())]


def reason_not_to_run(command: Command, calls: list[Call], scratch: Scratch, slow: bool) -> str | None:
    if command.inline:
        return "a mention"
    if command.is_synopsis:
        return "a synopsis"
    if "$" in command.text:
        return "has variables"
    first_words = re.findall(r"(?:^|[|;&]\s*)(?:\w+=\S+\s+)*(\S+)", command.text)
    if others := [word for word in first_words if pathlib.PurePath(word).name not in KNOWN_PROGRAMS]:
        return f"needs {others[0]}"
    missing = [file for call in calls for file in inputs_of(call) if not scratch.has(file)]
    if missing:
        return f"needs {missing[0]}"
    return None if slow else next((why for pattern, why in SLOW.items() if re.search(pattern, command.text)), None)


def typed(command: Command, calls: list[Call]) -> str:
    """Returns the command line to run. A server gets a free port, and stops when it listens."""
    text = command.text.removesuffix("&").strip()
    return f"exec {text} --port 0" if any(call.command == "serve" for call in calls) else text


def serve(process: subprocess.Popen[str], seconds: float) -> int:
    """Waits until a server answers, stops it, and returns its exit code."""
    end = time.monotonic() + seconds
    assert process.stdout
    for line in process.stdout:
        if re.search(r"https?://", line) or time.monotonic() > end:
            break
    process.send_signal(signal.SIGTERM)
    return process.wait(seconds)


def run(command: Command, calls: list[Call], scratch: Scratch, seconds: float) -> Outcome:
    for call in calls:
        for option, values in call.options:
            if option in OUTPUT_OPTIONS and not any(name == "--resume" for name, _ in call.options):
                for value in values:
                    scratch.remove(value)
    begin = time.monotonic()
    with subprocess.Popen(
        ["bash", "-o", "pipefail", "-c", typed(command, calls)],
        cwd=scratch.folder,
        env=scratch.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            output, code = "", 0
            if any(call.command == "serve" for call in calls):
                code = serve(process, seconds)
            else:
                output, _ = process.communicate(timeout=seconds)
                code = process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            return Outcome(command, "wrong", f"runs longer than {seconds} s; see SLOW in this test", seconds)
    took = time.monotonic() - begin
    if code == 0:
        return Outcome(command, "run", "", took)
    return Outcome(command, "wrong", f"exit code {code}: {' '.join(output.split())[-300:]}", took)


def test_page(page: pathlib.Path, program: Description, scratch: Scratch, slow: bool) -> Iterator[Outcome]:
    done: set[str] = set()
    for command in commands_of(page, page.read_text(encoding="utf-8")):
        calls = calls_of(command, program)
        if isinstance(calls, str):
            yield Outcome(command, "wrong", calls)
        elif page.name == "CHANGELOG.md" or command.text in done:
            continue
        elif why := reason_not_to_run(command, calls, scratch, slow):
            yield Outcome(command, "checked", why)
        else:
            done.add(command.text)
            yield run(command, calls, scratch, SECONDS_PER_COMMAND[slow])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=pathlib.Path, metavar="PAGE")
    parser.add_argument("--slow", action="store_true", help="also run what takes long")
    parser.add_argument("--list", action="store_true", help="print each command")
    args = parser.parse_args()
    program = pathlib.Path(os.environ.get("NEURONMM", REPOSITORY / "build/release/neuronmm"))
    if not program.is_file():
        parser.error(f"{program}: expected the program, found nothing; set NEURONMM")
    described = json.loads(subprocess.run([program, "describe", "json"], check=True, stdout=subprocess.PIPE).stdout)
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        make_templates(folder / "templates", program)
        for i, page in enumerate(args.pages or pages(REPOSITORY)):
            scratch = Scratch(folder / str(i), folder / "templates", program)
            outcomes += test_page(page, described, scratch, args.slow)
    for outcome in outcomes:
        page = outcome.command.page
        place = f"{page.relative_to(REPOSITORY) if page.is_relative_to(REPOSITORY) else page}:{outcome.command.line}"
        if args.list or outcome.what == "wrong":
            took = f" ({outcome.seconds:.1f} s)" if outcome.seconds else ""
            text = outcome.command.text.replace("\x00", "|")
            print(f"{outcome.what:8} {place}: {text[:120]}{took}{': ' if outcome.why else ''}{outcome.why}")
    counts = collections.Counter(outcome.what for outcome in outcomes)
    reasons = collections.Counter(outcome.why for outcome in outcomes if outcome.what == "checked")
    print(f"{counts['run']} commands run, {counts['checked']} only checked, {counts['wrong']} wrong")
    print("only checked: " + ", ".join(f"{count} {why}" for why, count in reasons.most_common()))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
