#!/usr/bin/env python3
"""Checks the English of comments, docstrings and pages against the limits of CONTRIBUTING.md.

usage: prose.py [--kind comments|pages] [--list N] [--limits] [PATH ...]

Without PATH the whole repository is read. A comment block is a run of whole-line comments, or one paragraph of a
docstring. The script counts four faults:

  long      a sentence of more than 35 words
  fragment  a block whose first word leaves its sentence without a subject, for example "Of the rows whose ..."
  figures   a sentence with more than four numbers
  dangling  a block that begins with a pronoun that nothing before it explains, for example "It ..."

The script prints a row for each folder and, with --list N, the N worst places. With --limits it exits with 1 if the
share of a fault is above its limit. The counts are hints: text without a fault can still be hard to read.
"""

import argparse
import collections
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

MAX_WORDS = 35
MAX_NUMBERS = 4
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

# Shares that may be exceeded nowhere: of sentences for `long` and `figures`, of blocks for the others.
LIMITS = {
    "comments": {"long": 0.03, "fragment": 0.005, "figures": 0.005, "dangling": 0.02},
    "pages": {"long": 0.03, "fragment": 0.005, "figures": 0.01, "dangling": 0.02},
}
COMMENT_MARKS = {".h": "//", ".cc": "//", ".py": "#", ".sh": "#", ".cmake": "#"}
SKIPPED_FOLDERS = {"build", "corpus", ".git", "__pycache__"}
SKIPPED_FILES = {"CHANGELOG.md", "LICENSE"}


class Fault(NamedTuple):
    kind: str
    size: int  # how bad: words, or numbers above MAX_WORDS, so that --list shows the worst first
    text: str


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


def paragraphs(text: str) -> Iterator[str]:
    """Yields the paragraphs and list items of a Markdown page, without its tables, headings and code blocks."""
    block: list[str] = []
    fenced = False
    for line in [*text.split("\n"), ""]:
        plain = line.strip()
        if plain.startswith("```"):
            fenced = not fenced
            plain = ""
        item = re.match(r"([-*+]|\d+\.)\s+", plain)
        apart = fenced or line.startswith("    ") or plain.startswith(("|", "<", "#"))
        if block and (apart or not plain or item):
            yield " ".join(block)
            block = []
        if plain and not apart:
            block.append(plain[item.end() :] if item else plain)


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
    if path.suffix == ".md":
        return "pages"
    return "comments" if path.suffix in COMMENT_MARKS or path.name == "CMakeLists.txt" else None


def files(roots: list[pathlib.Path], kind: str) -> Iterator[pathlib.Path]:
    for root in roots:
        for path in [root] if root.is_file() else sorted(root.rglob("*")):
            if path.is_file() and kind_of(path.relative_to(root) if path != root else path) == kind:
                yield path


def row(name: str, counts: collections.Counter[str], limits: dict[str, float]) -> str:
    shares = "".join(f"{100 * share(counts, fault):>9.1f}%" for fault in limits)
    return f"{name:32}{counts['sentences']:>10}{shares}"


def share(counts: collections.Counter[str], fault: str) -> float:
    base = counts["sentences"] if fault in ("long", "figures") else counts["blocks"]
    return counts[fault] / base if base else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=pathlib.Path, metavar="PATH")
    parser.add_argument("--kind", choices=LIMITS, default="comments", help="what to read (default: comments)")
    parser.add_argument("--list", type=int, default=0, metavar="N", help="print the N worst places")
    parser.add_argument("--limits", action="store_true", help="exit with 1 if a limit is exceeded")
    args = parser.parse_args()
    for path in args.paths:
        if not path.exists():
            parser.error(f"{path}: expected a file or folder, found nothing")

    repository = pathlib.Path(__file__).resolve().parent.parent
    limits = LIMITS[args.kind]
    folders: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    total: collections.Counter[str] = collections.Counter()
    worst: list[tuple[int, str, pathlib.Path, str]] = []
    for path in files(args.paths or [repository], args.kind):
        name = path.resolve().relative_to(repository) if path.resolve().is_relative_to(repository) else path
        counts: collections.Counter[str] = collections.Counter()
        for block in blocks(path):
            if len(block.split()) < MIN_WORDS:
                continue
            counts["blocks"] += 1
            counts["sentences"] += len(sentences(block))
            for fault in faults(block):
                counts[fault.kind] += 1
                worst.append((fault.size, fault.kind, name, fault.text))
        folders["/".join(name.parent.parts[:2]) or "."] += counts
        total += counts

    print(f"{'':32}{'sentences':>10}" + "".join(f"{fault:>10}" for fault in limits))
    for folder in sorted(folders):
        print(row(folder, folders[folder], limits))
    print(row("all", total, limits))
    print(f"{'at most':42}" + "".join(f"{100 * limit:>9.1f}%" for limit in limits.values()))
    for _, fault_kind, path, text in sorted(worst, reverse=True)[: args.list]:
        print(f"{fault_kind:9} {path}: {text[:200]}")
    over = [fault for fault, limit in limits.items() if share(total, fault) > limit]
    if over:
        print("above the limit: " + ", ".join(over) + "; --list 20 shows the worst places")
    return 1 if over and args.limits else 0


if __name__ == "__main__":
    sys.exit(main())
