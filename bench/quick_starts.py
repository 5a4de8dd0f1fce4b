#!/usr/bin/env python3
"""Runs the commands of the quick starts of README.md and writes their outputs to docs/measurements/quick_starts.txt.

    bench/quick_starts.py [--neuronmm PROGRAM] [--gguf FILE] [--only NUMBER]

FILE is the model of quick start 1, qwen2.5-coder-0.5b-instruct-q4_k_m.gguf under any name. Without it that quick start
is left as the file has it, and so are all but quick start NUMBER with --only. A test compares the outputs that
README.md shows with this file.
"""

import argparse
import datetime
import os
import pathlib
import re
import signal
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs/measurements/quick_starts.txt"
# Lines of progress, such as "writing the model 23/290, 06:38 left  model.layers.1".
PROGRESS = re.compile(r"^.* \d+/\d+(, [\d:]+ left)?(  .*)?\n", re.MULTILINE)
MODEL = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"


def quick_starts(page: str) -> dict[int, list[str]]:
    """Returns the commands of each quick start, in their order."""
    parts = re.split(r"^## ", page, flags=re.MULTILINE)
    found = {}
    for part in parts:
        if title := re.match(r"Quick start (\d)", part):
            found[int(title[1])] = re.findall(r"^\$ (neuronmm .*)$", part, re.MULTILINE)
    return found


def read_table() -> dict[int, str]:
    if not TABLE.exists():
        return {}
    parts = re.split(r"^## Quick start (\d)\n", TABLE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {int(number): text for number, text in zip(parts[1::2], parts[2::2])}


def machine() -> str:
    names = re.findall(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{len(os.sched_getaffinity(0))} cores of {names[0] if names else 'an unknown processor'}"


def serve(command: list[str], folder: pathlib.Path) -> str:
    """Runs a server until it is ready, and returns what it has printed."""
    lines = []
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            lines.append(line)
            if line.rstrip().endswith("is ready"):
                process.send_signal(signal.SIGINT)
                break
        process.communicate(timeout=60)
    return "".join(lines)


def output_of(command: str, program: pathlib.Path, folder: pathlib.Path) -> str:
    words = ["bash", "-c", "exec " + re.sub(r"^neuronmm", str(program), command)]
    if command.startswith("neuronmm serve"):
        return serve(words, folder)
    done = subprocess.run(
        words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise SystemExit(f"{command}: exit code {done.returncode}:\n{done.stdout[-2000:]}")
    return re.sub(PROGRESS, "", done.stdout)


def run(commands: list[str], options: argparse.Namespace) -> str:
    today = datetime.datetime.now(datetime.UTC).date()
    text = f"{machine()}, {today}\n"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for link in ("models", "examples"):
            (folder / link).symlink_to(ROOT / link)
        if options.gguf:
            (folder / MODEL).symlink_to(options.gguf.resolve())
        for command in commands:
            if command.startswith("neuronmm chat"):
                continue  # a conversation, with a model of the Hugging Face cache
            text += f"\n$ {command}\n{output_of(command, options.neuronmm.resolve(), folder)}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--neuronmm", type=pathlib.Path, default=ROOT / "build/release/neuronmm", metavar="PROGRAM",
                        help="program to run (default build/release/neuronmm)")
    parser.add_argument("--gguf", type=pathlib.Path, metavar="FILE", help="model of quick start 1")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="run only this quick start")
    options = parser.parse_args()
    for path in filter(None, (options.neuronmm, options.gguf)):
        if not path.is_file():
            parser.error(f"{path}: expected a file, found none")
    table = read_table()
    for number, commands in quick_starts((ROOT / "README.md").read_text(encoding="utf-8")).items():
        if options.only not in (None, number) or (number == 1 and not options.gguf):
            continue
        table[number] = run(commands, options)
    parts = [f"## Quick start {number}\n{table[number].strip()}\n" for number in sorted(table)]
    TABLE.write_text("Outputs of the quick starts of README.md, by bench/quick_starts.py\n\n" + "\n".join(parts))


if __name__ == "__main__":
    main()
