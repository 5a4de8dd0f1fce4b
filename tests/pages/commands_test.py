#!/usr/bin/env python3
"""Tests that the commands of all pages work when they are typed.

usage: NEURONMM=PROGRAM [MODEL=FOLDER] commands_test.py [--slow] [--list] [PAGE ...]

The test compares every command with the commands and options of the program. It then runs the commands of code blocks
that need no large model, page by page, in a folder with a small thing for each name (scratch.py). MODEL is the model
there. --list prints what happened to each command and why. --slow also runs the commands that take long.
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
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from page_commands import BAR, Call, Command, Description, calls_of, commands_of, words_of
from scratch import REPOSITORY, Scratch, make_templates

SECONDS_PER_COMMAND = {False: 300, True: 1200}
# Folders without pages of this version. Those of tests/compatibility were written by older ones.
SKIPPED_FOLDERS = {"build", ".git", "corpus", "__pycache__", "compatibility"}
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
# Why commands are not run; the first pattern that fits the command line counts.
NOT_RUN = {
    r"\bsilu_matmul\b": "uses the kernel that the page writes",
    r"--limit 24\b": "needs a longer text",
    r"--sweep TILE=": "needs a matmul.py with a constant TILE",
    r"\bcheck SMALL\b": "the exit code is 1, because a small model has other logits",
    r"bench MODEL --prompt-tokens 512\b": "needs a model with a longer context",
    r"--bytes 80M\b": "needs a model that is larger than the budget",
    r"--draft MODEL_DIR_4BIT\b": "needs a second form of the model",
    r"--adapter ADAPTER_DIR\b": "needs a LoRA adapter",
    r"examples/kernel/step\d": "the test examples.kernel runs it",
}
# Why they are not run in the short test.
SLOW = {
    r"\bneuronmm\s+(finetune|fit|tune|compare|eval|paper|bench)\b": "takes long",
    r"\bneuronmm\s+nki\b.*\b8192\b": "takes long",
}
# The folders that commands have written, by same_command().
Results = dict[str | None, pathlib.Path]


class Outcome(NamedTuple):
    command: Command
    what: str  # "run", "checked" or "wrong"
    why: str
    seconds: float = 0.0


def pages(root: pathlib.Path) -> Iterator[pathlib.Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - SKIPPED_FOLDERS)
        yield from (pathlib.Path(folder, name) for name in sorted(names) if name.endswith(".md"))


def values_of(call: Call, options: set[str]) -> list[str]:
    return [value for option, values in call.options if option in options for value in values]


def inputs_of(call: Call) -> list[str]:
    """Returns the files and folders that a call reads."""
    files = [] if call.command in NO_FILES else call.positionals[: 1 if call.command in FIRST_IS_FILE else None]
    files = files + values_of(call, INPUT_OPTIONS)
    if call.command == "nki":
        files = [file.partition(":")[0] for file in [*files, *values_of(call, {"--compare"})] if ".py" in file]
    if not values_of(call, {"--calibration"}):
        files += values_of(call, {"--statistics"})
    if any(option == "--resume" for option, _ in call.options):
        files += values_of(call, OUTPUT_OPTIONS)
    return [file for file in files if file != "-"]


def first_match(table: dict[str, str], text: str) -> str | None:
    return next((why for pattern, why in table.items() if re.search(pattern, text)), None)


def reason_not_to_run(command: Command, calls: list[Call], scratch: Scratch, slow: bool) -> str | None:
    if command.inline:
        return "mentioned in a sentence"
    if command.is_synopsis:
        return "a synopsis"
    if "$" in command.text:
        return "has variables"
    programs = re.findall(r"(?:^|[|;&]\s*)(?:\w+=\S+\s+)*(\S+)", command.text.removesuffix("&"))
    if others := [word for word in programs if pathlib.PurePath(word).name not in KNOWN_PROGRAMS]:
        return f"needs {others[0]}"
    missing = [file for call in calls for file in inputs_of(call) if not scratch.has(file)]
    if missing:
        return f"needs {missing[0]}"
    return first_match(NOT_RUN, command.text) or (None if slow else first_match(SLOW, command.text))


def typed(command: Command, calls: list[Call]) -> str:
    """Returns the command line to run. A server gets a free port."""
    text = command.text.removesuffix("&").strip()
    if not any(call.command == "serve" for call in calls):
        return text
    return "exec " + re.sub(r"\s--port[ =]\d+", "", text) + " --port 0"


def serve(process: subprocess.Popen[str], seconds: float) -> int:
    """Waits until a server answers, stops it, and returns its exit code. One that hangs is killed."""
    assert process.stdout
    killer = threading.Timer(seconds, process.kill)
    killer.start()
    for line in process.stdout:
        if re.search(r"https?://", line):
            break
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait()
    finally:
        killer.cancel()


def result_of(command: Command, calls: list[Call], scratch: Scratch, seconds: float) -> tuple[int, str]:
    """Runs a command line and returns its exit code and output."""
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
            if any(call.command == "serve" for call in calls):
                return serve(process, seconds), ""
            output, _ = process.communicate(timeout=seconds)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            process.kill()
            raise


def same_command(command: Command, calls: list[Call], scratch: Scratch) -> str | None:
    """Returns a text that is the same for commands with the same result, if the result is one folder."""
    outputs = [value for call in calls for value in values_of(call, OUTPUT_OPTIONS)]
    if len(outputs) != 1 or re.search(r"--(statistics|resume|json|html)\b", command.text):
        return None
    words = [scratch.original(word) or word for word in words_of(command.text) if word != outputs[0]]
    made_here = any(scratch.has(word) and not scratch.original(word) for call in calls for word in inputs_of(call))
    return None if made_here else " ".join(words)


def run_or_reuse(command: Command, calls: list[Call], scratch: Scratch, seconds: float, done: Results) -> Outcome:
    """Runs a command, or takes over the folder that the same command of another page has written."""
    key = same_command(command, calls, scratch)
    output = next((value for call in calls for value in values_of(call, OUTPUT_OPTIONS)), "")
    if key in done:
        scratch.take_over(output, done[key])
        return Outcome(command, "run", "as on another page")
    outcome = run(command, calls, scratch, seconds)
    if key and outcome.what == "run":
        done[key] = scratch.keep(output)
    return outcome


def run(command: Command, calls: list[Call], scratch: Scratch, seconds: float) -> Outcome:
    written = [] if "--resume" in command.text else [v for call in calls for v in values_of(call, OUTPUT_OPTIONS)]
    for name in written:
        scratch.remove(name)
    begin = time.monotonic()
    try:
        code, output = result_of(command, calls, scratch, seconds)
        fault = f"exit code {code}: {' '.join(output.split())[-300:]}" if code else ""
    except subprocess.TimeoutExpired:
        fault = f"takes longer than {seconds} s; see SLOW in this test"
    if fault:
        for name in written:
            scratch.restore(name)
    return Outcome(command, "wrong" if fault else "run", fault, time.monotonic() - begin)


def test_page(
    page: pathlib.Path, program: Description, scratch: Scratch, slow: bool, results: Results
) -> Iterator[Outcome]:
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
            yield run_or_reuse(command, calls, scratch, SECONDS_PER_COMMAND[slow], results)


def test_pages(paths: list[pathlib.Path], program: pathlib.Path, slow: bool) -> list[Outcome]:
    described = json.loads(subprocess.run([program, "describe", "json"], check=True, stdout=subprocess.PIPE).stdout)
    topic = {"names": ["COMMAND"], "positional": True, "required": False, "values": [0, 1]}
    described["commands"] |= {"help": {"options": [topic]}, "version": {"options": []}}
    model = pathlib.Path(os.environ.get("MODEL", REPOSITORY / "models/demo"))
    outcomes: list[Outcome] = []
    results: Results = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        make_templates(folder / "templates", program, model)
        for i, page in enumerate(paths):
            scratch = Scratch(folder / str(i), folder / "templates", program)
            outcomes += test_page(page, described, scratch, slow, results)
    return outcomes


def print_outcome(outcome: Outcome) -> None:
    page = outcome.command.page
    name = page.relative_to(REPOSITORY) if page.is_relative_to(REPOSITORY) else page
    took = f" ({outcome.seconds:.1f} s)" if outcome.seconds else ""
    text = outcome.command.text.replace(BAR, "|")
    reason = f": {outcome.why}" if outcome.why else ""
    print(f"{outcome.what:8} {name}:{outcome.command.line}: {text[:120]}{took}{reason}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=pathlib.Path, metavar="PAGE")
    parser.add_argument("--slow", action="store_true", help="also run what takes long")
    parser.add_argument("--list", action="store_true", help="print each command")
    args = parser.parse_args()
    program = pathlib.Path(os.environ.get("NEURONMM", REPOSITORY / "build/release/neuronmm"))
    if not program.is_file():
        parser.error(f"{program}: expected the program, found nothing; set NEURONMM")
    outcomes = test_pages([page.resolve() for page in args.pages] or list(pages(REPOSITORY)), program, args.slow)
    for outcome in outcomes:
        if args.list or outcome.what == "wrong":
            print_outcome(outcome)
    counts = collections.Counter(outcome.what for outcome in outcomes)
    reasons = collections.Counter(outcome.why for outcome in outcomes if outcome.what == "checked")
    print(f"{counts['run']} commands run, {counts['checked']} only checked, {counts['wrong']} wrong")
    print("only checked: " + ", ".join(f"{count} {why}" for why, count in reasons.most_common()))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
