#!/usr/bin/env python3
"""Prints the ten largest things in the repository and in the program, as tables in Markdown.

    bench/sizes.py [PROGRAM]      PROGRAM is build/release/neuronmm unless named, with its symbols

Things of the repository are folders of two levels and their bytes in the commit. Things of the program are namespaces
and libraries, by the names of their functions and tables (nm), without the symbol table, which packages lack.
"""

import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Names of other libraries whose templates are compiled into the program. The first one that a symbol has counts.
LIBRARIES = [("boost", "boost::"), ("CLI11", "CLI::"), ("nlohmann", "nlohmann::"), ("fmt", "fmt::"), ("std", "std::")]
COUNT = 10


def output(*command: str | pathlib.Path) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout


def folders() -> collections.Counter[str]:
    sizes: collections.Counter[str] = collections.Counter()
    for line in output("git", "ls-tree", "-r", "-l", "HEAD").splitlines():
        facts, path = line.split("\t", 1)
        size = facts.split()[3]
        if size != "-":
            sizes["/".join(path.split("/")[:2])] += int(size)
    return sizes


def owner(symbol: str) -> str:
    """Returns the namespace of a function of ours, or the library that it comes from."""
    # The types that a template is made of stand in its arguments, so they do not count.
    name = re.split(r"[<(]", symbol.removeprefix("void "), maxsplit=1)[0]
    if ours := re.search(r"neuronmm::(cpu::N_\w+|\w+)", name):
        return f"neuronmm::{ours[1]}"
    return next((library for library, prefix in LIBRARIES if prefix in name), "others")


def symbols(program: pathlib.Path) -> collections.Counter[str]:
    sizes: collections.Counter[str] = collections.Counter()
    for line in output("nm", "--print-size", "--size-sort", "--demangle", program).splitlines():
        found = re.match(r"\w+ (\w+) ([a-zA-Z]) (.*)", line)
        if found and found[2] not in "bB":  # those take no bytes in the file
            sizes[owner(found[3])] += int(found[1], 16)
    return sizes


def table(title: str, sizes: collections.Counter[str]) -> str:
    total = sum(sizes.values())
    lines = [f"| {title} | kB | share |", "|---|---|---|"]
    for name, size in sizes.most_common(COUNT):
        lines.append(f"| `{name}` | {size / 1e3:,.0f} | {100 * size / total:.0f} % |")
    return "\n".join([*lines, f"| all | {total / 1e3:,.0f} | 100 % |"])


def main() -> None:
    program = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release/neuronmm").resolve()
    if not program.is_file():
        sys.exit(f"{program}: expected the program, found nothing; build it, or name another")
    print(table("the repository", folders()), "\n")
    print(table("the program", symbols(program)))


if __name__ == "__main__":
    main()
