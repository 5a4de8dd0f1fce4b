#!/usr/bin/env python3
"""Tests of tools/links.py: which references it counts as broken, and that this repository has none of them."""

import pathlib
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(REPOSITORY / "tools"))
import links  # noqa: E402

# The folder is apart, because links.py reads this file, too.
DOCS = "docs"


class LinksTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write(f"{DOCS}/page.md", "# A page: `code` & more\n\n## Twice\n\n## Twice\n\n```\n# No title\n```\n")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        links.titles.cache_clear()
        links.anchors.cache_clear()

    def broken(self, name: str, text: str) -> list[tuple[int, str]]:
        self.write(name, text)
        return [(found.line, found.reason) for found in links.check([self.root / name], self.root)]


class Pages(LinksTest):
    def test_good_links_are_accepted(self) -> None:
        for link in (
            "[a](page.md)",
            "[a](page.md#a-page-code--more)",
            "[a](page.md#twice-1)",
            "[`code`](../docs/page.md)",
            "[a](/docs/page.md)",
            "[a](.)",
            "[a](#here)",
            "[a](https://example.com/none.md#none)",
            "[a]: page.md",
            '<a href="page.md">a</a>',
            "`[a](none.md)`",
            "```\n[a](none.md)\n```",
            "    ```\n[a](none.md)\n    ```",
        ):
            self.assertEqual(self.broken(f"{DOCS}/other.md", "# Here\n" + link), [], link)

    def test_missing_files_and_sections_are_found_with_their_line(self) -> None:
        for link, reason in {
            "[a](none.md)": "none.md: there is no such file",
            "[`code`](none.md)": "none.md: there is no such file",
            "![a](none.svg)": "none.svg: there is no such file",
            "[a]: none.md": "none.md: there is no such file",
            '<img src="none.png">': "none.png: there is no such file",
            "[a](page.md#twice-2)": "page.md#twice-2: page.md has no section with this anchor",
            "[a](page.md#no-title)": "page.md#no-title: page.md has no section with this anchor",
            "[a](#none)": "#none: other.md has no section with this anchor",
            "[a](../../page.md)": "../../page.md: expected a file of this repository",
        }.items():
            self.assertEqual(self.broken(f"{DOCS}/other.md", "# Here\n\n" + link), [(3, reason)], link)

    def test_paths_in_code_must_be_there(self) -> None:
        self.write("src/io/file.h", "")
        text = "`src/io/file.h`, `src/io/file`, `src/io/file.h:7`, `src/io --flag`, `src/io/*.h` and `io/none.h`"
        self.assertEqual(self.broken("a.md", text), [])
        self.assertEqual(self.broken("a.md", "`src/io/none.h x`"), [(1, "src/io/none.h: there is no such file")])
        self.assertEqual(self.broken("CHANGELOG.md", "`src/io/none.h`"), [])

    def test_programs_in_code_blocks_must_be_there(self) -> None:
        self.write("bench/a.py", "")
        self.assertEqual(self.broken("a.md", "```\n$ A=1 python3 bench/a.py X\n./bench/a.py\nbuild/b\n```"), [])
        reason = "bench/none.py: there is no such file"
        text = "```\nA=1 bench/none.py X\n```\n\n    bench/none.py"
        self.assertEqual(self.broken("a.md", text), [(2, reason), (5, reason)])


class Sources(LinksTest):
    def test_pages_and_their_sections_must_be_there(self) -> None:
        for mark, name in (("//", "src/a.h"), ("#", "a.py"), ("#", "CMakeLists.txt")):
            text = f'{mark} See {DOCS}/page.md, "Twice". {DOCS}/page.md#twice has more. Of ggml, {DOCS}/gguf.md.'
            self.assertEqual(self.broken(name, text), [])
            text = f'{mark} See\n{mark} {DOCS}/page.md, "No\n{mark} title", or {DOCS}/none.md or {DOCS}/page.md#none.'
            self.assertEqual(
                self.broken(name, text),
                [
                    (2, f'{DOCS}/page.md: the page has no section "No title"'),
                    (3, f"{DOCS}/none.md: there is no such file"),
                    (3, f"{DOCS}/page.md#none: the page has no section with this anchor"),
                ],
            )

    def test_pages_of_other_sites_are_left_alone(self) -> None:
        self.assertEqual(self.broken("a.py", f"# https://example.com/{DOCS}/none.md"), [])


class Repository(unittest.TestCase):
    def test_all_references_are_there(self) -> None:
        broken = [f"{found.path}:{found.line}: {found.reason}" for found in links.check([REPOSITORY])]
        self.assertEqual(broken, [])


if __name__ == "__main__":
    unittest.main()
