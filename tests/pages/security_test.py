#!/usr/bin/env python3
"""Every test that docs/guide/security.md names is one of ours, so that no promise is without its test."""

import pathlib
import re
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = REPOSITORY / "docs/guide/security.md"
NAMED = re.compile(r"`([A-Z]\w+)\.(\w+|\*)`")
DEFINED = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)


def missing(page: str, sources: list[str]) -> list[str]:
    """Returns the tests that `page` names and no source defines. `Suite.*` is all tests of a suite."""
    defined = {pair for source in sources for pair in DEFINED.findall(source)}
    suites = {suite for suite, _ in defined}
    return [
        f"{suite}.{test}"
        for suite, test in NAMED.findall(page)
        if (suite not in suites if test == "*" else (suite, test) not in defined)
    ]


class SecurityPage(unittest.TestCase):
    def test_a_test_that_does_not_exist_is_found(self) -> None:
        source = "TEST(Good, Test) {\n}\nTEST_F(Other,\n       LongName) {\n"
        self.assertEqual(missing("`Good.Test`, `Good.*`, `Other.LongName`", [source]), [])
        self.assertEqual(missing("`Good.Gone`, `Gone.*`, `a.txt`", [source]), ["Good.Gone", "Gone.*"])

    def test_every_promise_has_tests(self) -> None:
        sources = [path.read_text(encoding="utf-8") for path in REPOSITORY.glob("tests/**/*.cc")]
        self.assertEqual(missing(PAGE.read_text(encoding="utf-8"), sources), [])

    def test_every_row_of_a_promise_names_a_test(self) -> None:
        promises = PAGE.read_text(encoding="utf-8").split("## What we promise")[1].split("\n## ")[0]
        rows = [row for row in promises.splitlines() if row.startswith("| ") and not row.startswith("| promise")]
        self.assertGreater(len(rows), 10)
        for row in rows:
            with self.subTest(row=row):
                self.assertRegex(row, NAMED)


if __name__ == "__main__":
    unittest.main()
