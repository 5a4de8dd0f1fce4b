#!/usr/bin/env python3
"""Checks the English of comments, pages, help texts and the changelog against the limits of CONTRIBUTING.md.

usage: prose.py [--kind comments|pages|changelog|help] [--list N] [--limits] [--program NEURONMM] [PATH ...]

Without PATH the whole repository is read. A comment block is a run of whole-line comments, or one paragraph of a
docstring. A block of a page is a paragraph or a list item. Help texts come from the built program, which describes
its commands and options as JSON. The script counts these faults:

  long      a sentence of more than 35 words
  fragment  a block whose first word leaves its sentence without a subject, for example "Of the rows whose ..."
  figures   a sentence with more than four numbers
  dangling  a block that begins with a pronoun that nothing before it explains, for example "It ..."
  wide      a line of a page with more than 110 columns; tables, code and words that cannot be broken are exempt

The script prints a row for each folder or command and, with --list N, the N worst places. With --limits it exits
with 1 if the share of a fault is above its limit. The counts are hints: text without a fault can still be hard to
read.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

MAX_WORDS = 35
MAX_NUMBERS = 4
MAX_COLUMNS = 110
# A block needs this many words to be judged: "// SBUF" or "// Row-major." is a label.
MIN_WORDS = 3

FRAGMENT = re.compile(
    r"(Of|What|Those|So (many|much|far)|The same|Such|As (many|much|far|of)|Whose|Which|Where|Else|Likewise"
    r"|By (hand|what)|With (that|which)|(In|For|From|To) (what|which|whom|whose)|Nothing of)\b"
)
DANGLING = re.compile(
    r"(It|They|This|That|These|Both|Each|Others|One|Neither|He|Here)\b"
    r"(?! (file|page|folder|section|test|script|document|table|class|struct|function|header|program|module|method"
    r"|library|package|directory|repository)\b)"
)
NUMBER = re.compile(r"(?<![\w.])\.?\d[\d.,]*")
NOT_PROSE = re.compile(r"NOLINT|clang-format|-\*-|noqa|type: ignore|shellcheck")

# Shares that may be exceeded nowhere: of sentences for `long` and `figures`, of lines for `wide`, of blocks for the
# others.
PAGE_LIMITS = {"long": 0.02, "fragment": 0.003, "figures": 0.005, "dangling": 0.02, "wide": 0.0}
LIMITS = {
    "comments": {"long": 0.02, "fragment": 0.003, "figures": 0.005, "dangling": 0.02},
    "pages": PAGE_LIMITS,
    "changelog": PAGE_LIMITS,
    "help": {fault: limit for fault, limit in PAGE_LIMITS.items() if fault != "wide"},
}
REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
COMMENT_MARKS = {".h": "//", ".cc": "//", ".py": "#", ".sh": "#", ".cmake": "#"}
SKIPPED_FOLDERS = {"build", "corpus", ".git", "__pycache__"}
SKIPPED_FILES = {"LICENSE"}


class Fault(NamedTuple):
    kind: str
    size: int  # how bad: words, or numbers above MAX_WORDS, so that --list shows the worst first
    text: str


class Source(NamedTuple):
    """A text to judge: a file, or the help of a command."""

    row: str  # the row of the table that counts it
    name: str
    blocks: list[str]
    lines: list[str]  # the lines whose width is judged


def comments(text: str, mark: str) -> Iterator[str]:
    """Yields each run of whole-line comments as one line of text."""
    line_pattern = re.compile(rf"\s*{re.escape(mark)}[/!]?\s?(.*)")
    block: list[str] = []
    for line in [*text.split("\n"), ""]:
        match = line_pattern.fullmatch(line)
        if match and not line.startswith("#!") and not NOT_PROSE.match(match[1]):
            block.append(match[1].strip())
        elif block:
            yield " ".join(block)
            block = []


def docstrings(text: str) -> Iterator[str]:
    """Yields the paragraphs of each docstring, except indented ones, which are examples."""
    for match in re.finditer(r'"""(.*?)"""', text, re.DOTALL):
        for paragraph in re.split(r"\n\s*\n", match[1]):
            if paragraph.strip() and not paragraph.startswith("    "):
                yield " ".join(paragraph.split())


def marked_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yields each line of a Markdown page, and whether it is prose or a heading: no table, HTML or code."""
    fenced = False
    for line in text.split("\n"):
        plain = line.strip()
        is_fence = plain.startswith("```")
        yield line, not (fenced or is_fence or line.startswith("    ") or plain.startswith(("|", "<")))
        fenced ^= is_fence


def paragraphs(text: str) -> Iterator[str]:
    """Yields the paragraphs and list items of a Markdown page, without its tables, headings and code blocks."""
    block: list[str] = []
    for line, prose in [*marked_lines(text), ("", True)]:
        plain = line.strip()
        item = re.match(r"([-*+]|\d+\.)\s+", plain)
        apart = not prose or plain.startswith("#")
        if block and (apart or not plain or item):
            yield " ".join(block)
            block = []
        if plain and not apart:
            block.append(plain[item.end() :] if item else plain)


def is_wide(line: str) -> bool:
    """Returns whether a line of prose is too long and could be broken before its last word."""
    words = re.sub(r"^\s*(([-*+>]|\d+\.|#+)\s+)*", "", line).split()
    return len(line) > MAX_COLUMNS and len(words) > 1


def blocks(path: pathlib.Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".md":
        yield from paragraphs(text)
        return
    yield from comments(text, COMMENT_MARKS.get(path.suffix, "#"))
    if path.suffix == ".py":
        yield from docstrings(text)


def sentences(block: str) -> list[str]:
    text = re.sub(r"`[^`]*`", "code", block)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"https?://\S+", "link", text)
    text = re.sub(r"[*_]{1,2}([^*_]+)[*_]{1,2}", r"\1", text)
    parts = re.split(r"(?<=[.!?:;])\s+(?=[A-Z`(\"'])|\n{2,}", text.strip())
    return [" ".join(part.split()) for part in parts if len(part.split()) >= MIN_WORDS]


def faults(block: str) -> Iterator[Fault]:
    found = sentences(block)
    if FRAGMENT.match(block):
        yield Fault("fragment", MAX_WORDS, block)
    if found and DANGLING.match(found[0]):
        yield Fault("dangling", MAX_WORDS - 1, block)
    for sentence in found:
        words, numbers = len(sentence.split()), len(NUMBER.findall(sentence))
        if words > MAX_WORDS:
            yield Fault("long", words, sentence)
        if numbers > MAX_NUMBERS:
            yield Fault("figures", MAX_WORDS + numbers, sentence)


def kind_of(path: pathlib.Path) -> str | None:
    if path.name in SKIPPED_FILES or SKIPPED_FOLDERS & set(path.parts):
        return None
    if path.name == "CHANGELOG.md":
        return "changelog"
    if path.suffix == ".md":
        return "pages"
    return "comments" if path.suffix in COMMENT_MARKS or path.name == "CMakeLists.txt" else None


def files(roots: list[pathlib.Path], kind: str) -> Iterator[pathlib.Path]:
    for root in roots:
        for path in [root] if root.is_file() else sorted(root.rglob("*")):
            if path.is_file() and kind_of(path.relative_to(root) if path != root else path) == kind:
                yield path


def read_file(path: pathlib.Path) -> Source:
    name = path.resolve().relative_to(REPOSITORY) if path.resolve().is_relative_to(REPOSITORY) else path
    lines: list[str] = []
    if path.suffix == ".md":
        text = path.read_text(encoding="utf-8", errors="replace")
        lines = [line for line, prose in marked_lines(text) if prose and line.strip()]
    return Source("/".join(name.parent.parts[:2]) or ".", str(name), list(blocks(path)), lines)


def built_program() -> pathlib.Path:
    """Returns the program that $NEURONMM names, or the one of a build folder."""
    if "NEURONMM" in os.environ:
        return pathlib.Path(os.environ["NEURONMM"])
    for folder in ("build/release", "build"):
        if (REPOSITORY / folder / "neuronmm").is_file():
            return REPOSITORY / folder / "neuronmm"
    sys.exit("prose.py: expected a built program for the help texts, found none; give --program or set NEURONMM")


def help_texts(program: pathlib.Path) -> Iterator[Source]:
    """Yields the help of the program and of each command."""
    described = json.loads(subprocess.run([program, "describe", "json"], check=True, stdout=subprocess.PIPE).stdout)
    for command, parts in [("", described), *described["commands"].items()]:
        named = [("", parts), *((option["names"][-1], option) for option in parts["options"])]
        for option, described_part in named:
            text = described_part["description"]
            name = " ".join(filter(None, ["neuronmm", command, option]))
            yield Source(command or "neuronmm", name, [text[:1].upper() + text[1:]], [])


def row(name: str, counts: collections.Counter[str], limits: dict[str, float]) -> str:
    shares = "".join(f"{100 * share(counts, fault):>9.1f}%" for fault in limits)
    return f"{name:32}{counts['sentences']:>10}{shares}"


def share(counts: collections.Counter[str], fault: str) -> float:
    base = counts[{"long": "sentences", "figures": "sentences", "wide": "lines"}.get(fault, "blocks")]
    return counts[fault] / base if base else 0.0


def judge(source: Source, counts: collections.Counter[str]) -> Iterator[Fault]:
    """Yields the faults of a text, and adds them and the sizes that shares are of to `counts`."""
    found = [Fault("wide", len(line), line.strip()) for line in source.lines if is_wide(line)]
    counts["lines"] += len(source.lines)
    for block in source.blocks:
        if len(block.split()) < MIN_WORDS:
            continue
        counts["blocks"] += 1
        counts["sentences"] += len(sentences(block))
        found += faults(block)
    for fault in found:
        counts[fault.kind] += 1
        yield fault


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=pathlib.Path, metavar="PATH")
    parser.add_argument("--kind", choices=LIMITS, default="comments", help="what to read (default: comments)")
    parser.add_argument("--list", type=int, default=0, metavar="N", help="print the N worst places")
    parser.add_argument("--limits", action="store_true", help="exit with 1 if a limit is exceeded")
    parser.add_argument(
        "--program",
        type=pathlib.Path,
        metavar="NEURONMM",
        help="program whose help texts are read (default: $NEURONMM, else the one of a build folder)",
    )
    args = parser.parse_args()
    for path in args.paths:
        if not path.exists():
            parser.error(f"{path}: expected a file or folder, found nothing")
    return args


def main() -> int:
    args = arguments()
    limits = LIMITS[args.kind]
    rows: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    worst: list[tuple[int, str, str, str]] = []
    if args.kind == "help":
        sources = help_texts(args.program or built_program())
    else:
        sources = (read_file(path) for path in files(args.paths or [REPOSITORY], args.kind))
    for source in sources:
        for fault in judge(source, rows[source.row]):
            worst.append((fault.size, fault.kind, source.name, fault.text))
    total = sum(rows.values(), collections.Counter())

    print(f"{args.kind:32}{'sentences':>10}" + "".join(f"{fault:>10}" for fault in limits))
    for name in sorted(rows):
        print(row(name, rows[name], limits))
    print(row("all", total, limits))
    print(f"{'at most':42}" + "".join(f"{100 * limit:>9.1f}%" for limit in limits.values()))
    over = [fault for fault, limit in limits.items() if share(total, fault) > limit]
    # With --limits only the faults that make the check fail are worth reading.
    shown = [place for place in sorted(worst, reverse=True) if not (args.limits and over) or place[1] in over]
    for _, fault_kind, name, text in shown[: args.list]:
        print(f"{fault_kind:9} {name}: {text[:200]}")
    if over:
        print("above the limit: " + ", ".join(over) + "; --list 20 shows the worst places")
    return 1 if over and args.limits else 0


if __name__ == "__main__":
    sys.exit(main())
