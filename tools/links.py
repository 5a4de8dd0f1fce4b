#!/usr/bin/env python3
"""Finds links to files and sections that are not there.

usage: links.py [PATH ...]

Without PATH the whole repository is read. The script checks three kinds of references:

  links       of Markdown pages, with their anchors. Links to other sites are not followed.
  paths       in the inline code of pages, such as `src/io/checkpoint.h`, and at the beginning of the lines of code
              blocks, such as "bench/quality.py MODEL". The changelog may name files that are gone.
  mentions    of pages in sources of all languages, such as "docs/measurements/quality.md" in a comment. The title of a
              section that follows in quotes, and an anchor, must be there, too.

The script prints file, line and reason of each broken reference, and exits with 1 if there is one.
"""

import argparse
import functools
import os
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
SKIPPED_FOLDERS = {"build", "corpus", ".git", "__pycache__"}
SOURCES = {".h", ".cc", ".py", ".sh", ".cmake", ".js", ".css", ".html", ".yml", ".toml", ".in"}
# The first folders of paths in the inline code of pages.
FOLDERS = ("apps", "bench", "cmake", "deploy", "docs", "examples", "fuzz", "models", "python", "src", "tests", "tools")
# Paths that look like ours.
OTHER_FILES = {
    "docs/gguf.md",  # in the repository of ggml
    "src/trainium/kernels/silu_matmul.cc",  # which the reader of the page on kernels writes
    # in the repositories whose kernels the simulator is compared on
    "bench/bench_runner.py",
    "bench/results/plots/runtime_by_version.png",
    "examples/trn-advanced/4_conv1d_trace.py",
}

LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINITION = re.compile(r"^\s{0,3}\[[^\]]+\]:\s*<?(\S+?)>?\s*$")
ATTRIBUTE = re.compile(r"\b(?:href|src)=\"([^\"]+)\"")
CODE = re.compile(r"(`+)(.+?)\1")
# The beginning of a line in a code block, before its program: a prompt, variables, an interpreter.
COMMAND = re.compile(r"\s*(?:\$ )?(?:\w+=\S+ )*(?:(?:python3?|bash|sh) )?(?:\./)?")
# A page in a source file. Longer paths ("github.com/.../docs/gguf.md") belong to others.
MENTION = re.compile(r"(?<![\w./-])(docs/[\w./-]+\.(?:md|csv|json)\b)(#[\w-]+)?")
SECTION = re.compile(r",\s+\"([^\"]+)\"")
# The beginning of a comment line. A title may continue on the next line.
COMMENT_MARK = re.compile(r"\n\s*(?://|#)\s?")


class Broken(NamedTuple):
    path: pathlib.Path
    line: int
    reason: str


def slug(title: str) -> str:
    """Returns the anchor that GitHub makes of a title."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")


def prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields the lines of a page that are in no code block, with their numbers from 1."""
    fence = ""
    for number, line in enumerate(text.split("\n"), 1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        elif not fence:
            yield number, line


@functools.cache
def titles(page: pathlib.Path) -> tuple[str, ...]:
    lines = (line for _, line in prose_lines(page.read_text(encoding="utf-8")))
    return tuple(match[1] for match in (re.match(r"#{1,6}\s+(.*?)\s*#*$", line) for line in lines) if match)


@functools.cache
def anchors(page: pathlib.Path) -> frozenset[str]:
    """Returns the anchors of a page. The second title of the same name gets "-1", and so on."""
    found = set(re.findall(r"\b(?:id|name)=\"([^\"]+)\"", page.read_text(encoding="utf-8")))
    counts: dict[str, int] = {}
    for title in titles(page):
        name = slug(title)
        found.add(f"{name}-{counts[name]}" if name in counts else name)
        counts[name] = counts.get(name, 0) + 1
    return frozenset(found)


def fault_of(target: str, page: pathlib.Path, root: pathlib.Path) -> str | None:
    """Returns what is wrong with a link of `page`, or None."""
    if re.match(r"[a-z][a-z0-9+.-]*:", target, re.IGNORECASE):
        return None
    name, _, anchor = unquote(target).partition("#")
    file = page if not name else (root / name[1:] if name.startswith("/") else page.parent / name)
    if not file.resolve().is_relative_to(root.resolve()):
        return f"{target}: expected a file of this repository"
    if not file.exists():
        return f"{target}: there is no such file"
    if anchor and file.suffix == ".md" and anchor not in anchors(file.resolve()):
        return f"{target}: {file.name} has no section with this anchor"
    return None


def fault_of_code(code: str, root: pathlib.Path) -> str | None:
    """Returns what is wrong with a path that begins inline code, or None. Patterns are not looked up."""
    match = re.match(rf"((?:{'|'.join(FOLDERS)})/[\w./-]+?)(?::\d+)?(?:\s|$)", code)
    if not match or match[1] in OTHER_FILES:
        return None
    path = root / match[1]
    # The name of a pair of files, such as src/cpu/mlp for mlp.h and mlp.cc, may be without an ending.
    exists = path.exists() or (path.parent.is_dir() and any(path.parent.glob(path.name + ".*")))
    return None if exists else f"{match[1]}: there is no such file"


def check_blocks(path: pathlib.Path, text: str, root: pathlib.Path) -> Iterator[Broken]:
    """Checks the programs of this repository that the code blocks of a page call."""
    prose = {number for number, line in prose_lines(text) if not line.startswith("    ")}
    for number, line in enumerate(text.split("\n"), 1):
        called = COMMAND.match(line) if number not in prose else None
        reason = fault_of_code(line[called.end() :], root) if called else None
        if reason:
            yield Broken(path, number, reason)


def check_page(path: pathlib.Path, root: pathlib.Path) -> Iterator[Broken]:
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.name != "CHANGELOG.md":
        yield from check_blocks(path, text, root)
    for number, line in prose_lines(text):
        plain = CODE.sub("", line)
        targets = [*LINK.findall(plain), *DEFINITION.findall(plain), *ATTRIBUTE.findall(plain)]
        # The text of a link may be code, so the link is looked for in the whole line as well.
        targets += [target for target in LINK.findall(CODE.sub("code", line)) if target not in targets]
        reasons = [fault_of(target, path, root) for target in targets]
        if path.name != "CHANGELOG.md":
            reasons += [fault_of_code(code, root) for _, code in CODE.findall(line)]
        yield from (Broken(path, number, reason) for reason in reasons if reason)


def check_source(path: pathlib.Path, root: pathlib.Path) -> Iterator[Broken]:
    text = path.read_text(encoding="utf-8", errors="replace")
    for match in MENTION.finditer(text):
        number = text.count("\n", 0, match.start()) + 1
        page = root / match[1]
        if match[1] in OTHER_FILES:
            continue
        if not page.is_file():
            yield Broken(path, number, f"{match[1]}: there is no such file")
            continue
        if match[2] and match[2][1:] not in anchors(page):
            yield Broken(path, number, f"{match[0]}: the page has no section with this anchor")
        rest = COMMENT_MARK.sub(" ", text[match.end() : match.end() + 300])
        section = SECTION.match(rest)
        if section and page.suffix == ".md" and slug(section[1]) not in anchors(page):
            yield Broken(path, number, f'{match[1]}: the page has no section "{section[1]}"')


def files(path: pathlib.Path) -> Iterator[pathlib.Path]:
    if path.is_file():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(set(folders) - SKIPPED_FOLDERS)
        yield from (pathlib.Path(folder, name) for name in sorted(names))


def check(paths: list[pathlib.Path], root: pathlib.Path = REPOSITORY) -> Iterator[Broken]:
    for path in (file for path in paths for file in files(path)):
        if path.suffix == ".md":
            yield from check_page(path, root)
        elif path.suffix in SOURCES or path.name == "CMakeLists.txt":
            yield from check_source(path, root)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=pathlib.Path, metavar="PATH")
    args = parser.parse_args()
    for path in args.paths:
        if not path.exists():
            parser.error(f"{path}: expected a file or folder, found nothing")
    broken = list(check(args.paths or [REPOSITORY]))
    for found in broken:
        path = found.path.resolve()
        name = path.relative_to(REPOSITORY) if path.is_relative_to(REPOSITORY) else found.path
        print(f"{name}:{found.line}: {found.reason}")
    print(f"{len(broken)} broken references")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
