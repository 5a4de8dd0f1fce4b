#!/usr/bin/env python3
"""Tests of tools/prose.py: which sentences it counts as faults, and that this repository stays within the limits."""

import collections
import os
import pathlib
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(REPOSITORY / "tools"))
import prose  # noqa: E402


def kinds(block: str) -> list[str]:
    return [fault.kind for fault in prose.faults(block)]


class Faults(unittest.TestCase):
    def test_a_block_without_a_subject_is_a_fragment(self) -> None:
        for block in (
            "Of the rows whose logits are wanted; empty where all of all of them are.",
            "What is read of the file, and what is left out.",
            "So many rows are packed at once.",
            "Where the text ends, the last token.",
        ):
            self.assertEqual(kinds(block), ["fragment"], block)

    def test_whole_sentences_have_no_fault(self) -> None:
        for block in (
            "Returns which rows of each sequence need logits. The result is empty if every row needs them.",
            "Interleaves a and b: halves[0] takes the even lanes of both, halves[1] the odd lanes.",
            "Offsets are in bytes.",
        ):
            self.assertEqual(kinds(block), [], block)

    def test_a_pronoun_at_the_beginning_dangles(self) -> None:
        self.assertEqual(kinds("It is made anew for each layer."), ["dangling"])
        self.assertEqual(kinds("This file holds the table of devices."), [])
        self.assertEqual(kinds("The scheduler owns the cache. It frees blocks in order."), [])

    def test_a_sentence_may_have_35_words_and_four_numbers(self) -> None:
        self.assertEqual(kinds("Word " * 34 + "end."), [])
        self.assertEqual(kinds("Word " * 35 + "end."), ["long"])
        self.assertEqual(kinds("The sizes are 1, 2, 3 and 4 bytes."), [])
        self.assertEqual(kinds("The sizes are 1, 2, 3, 4 and 5 bytes."), ["figures"])

    def test_names_of_code_are_no_numbers(self) -> None:
        self.assertEqual(kinds("The kinds are `1 2 3 4 5` and int8, bf16, fp32, x86, i64 and u8."), [])


class Blocks(unittest.TestCase):
    def blocks_of(self, name: str, text: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, name)
            path.write_text(text, encoding="utf-8")
            return list(prose.blocks(path))

    def test_comment_lines_without_a_gap_are_one_block(self) -> None:
        text = "// Returns the sum\n// of all rows.\nint f();\n\n// NOLINTNEXTLINE\n  /// Ends here.\n"
        self.assertEqual(self.blocks_of("a.h", text), ["Returns the sum of all rows.", "Ends here."])

    def test_python_has_comments_and_docstrings(self) -> None:
        text = '#!/usr/bin/env python3\n"""Reads a file.\n\n    an example\n\nReturns text.\n"""\n# A comment.\n'
        self.assertEqual(self.blocks_of("a.py", text), ["A comment.", "Reads a file.", "Returns text."])

    def test_pages_are_read_without_tables_headings_and_code(self) -> None:
        text = "# Title\n\nOne paragraph\nof two lines.\n\n| a | b |\n\n```\ncode\n```\n* first item\n* second item\n"
        self.assertEqual(
            self.blocks_of("a.md", text), ["One paragraph of two lines.", "first item", "second item"]
        )


class Widths(unittest.TestCase):
    def test_lines_of_prose_have_at_most_110_columns(self) -> None:
        self.assertFalse(prose.is_wide("word " * 21 + "words"))
        self.assertTrue(prose.is_wide("word " * 22 + "w"))
        self.assertTrue(prose.is_wide("* see [here](" + "a" * 120 + ")"))

    def test_a_line_that_cannot_be_broken_may_be_longer(self) -> None:
        for mark in ("", "* ", "  1. ", "> * "):
            self.assertFalse(prose.is_wide(mark + "[here](" + "a" * 120 + ")"), mark)

    def test_tables_and_code_are_exempt(self) -> None:
        text = "prose\n| a |\n    code\n```\nfenced\n```\n<img>\n# title"
        lines = [line for line, is_prose in prose.marked_lines(text) if is_prose]
        self.assertEqual(lines, ["prose", "# title"])


class Limits(unittest.TestCase):
    def counts_of(self, blocks: list[str], lines: list[str]) -> dict[str, int]:
        counts: collections.Counter[str] = collections.Counter()
        list(prose.judge(prose.Source("row", "name", blocks, lines), counts))
        return counts

    def test_shares_are_of_sentences_blocks_or_lines(self) -> None:
        counts = self.counts_of(["It is made anew. The cache owns it. A third sentence follows."], ["word " * 30, "a b"])
        self.assertAlmostEqual(prose.share(counts, "dangling"), 1)
        self.assertAlmostEqual(prose.share(counts, "wide"), 1 / 2)
        counts = self.counts_of(["Word " * 40 + "end. Another sentence follows."], [])
        self.assertAlmostEqual(prose.share(counts, "long"), 1 / 2)
        self.assertEqual(prose.share(counts, "wide"), 0)

    def test_each_file_has_one_kind(self) -> None:
        for name, kind in {
            "docs/README.md": "pages",
            "README.md": "pages",
            "CHANGELOG.md": "changelog",
            "src/base/a.h": "comments",
            "CMakeLists.txt": "comments",
            "LICENSE": None,
            "build/a.md": None,
        }.items():
            self.assertEqual(prose.kind_of(pathlib.Path(name)), kind, name)


class Checked(unittest.TestCase):
    """Runs the check with its limits."""

    def check(self, kind: str) -> None:
        arguments, sys.argv = sys.argv, ["prose.py", "--kind", kind, "--limits", "--list", "20"]
        try:
            self.assertEqual(prose.main(), 0, "the rows above name the worst places; CONTRIBUTING.md has the rules")
        finally:
            sys.argv = arguments


class Repository(Checked):
    def test_comments_stay_within_the_limits(self) -> None:
        self.check("comments")

    def test_pages_stay_within_the_limits(self) -> None:
        self.check("pages")

    def test_the_changelog_stays_within_the_limits(self) -> None:
        self.check("changelog")


@unittest.skipUnless("NEURONMM" in os.environ, "needs the built program, $NEURONMM")
class HelpTexts(Checked):
    def test_help_texts_stay_within_the_limits(self) -> None:
        self.check("help")


if __name__ == "__main__":
    unittest.main()
