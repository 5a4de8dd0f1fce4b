#!/usr/bin/env python3
"""Tests of tools/prose.py: which sentences it counts as faults, and that this repository stays within the limits."""

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


class Repository(unittest.TestCase):
    def test_comments_stay_within_the_limits(self) -> None:
        arguments, sys.argv = sys.argv, ["prose.py", "--kind", "comments", "--limits", "--list", "20"]
        try:
            self.assertEqual(prose.main(), 0, "the rows above name the worst places; CONTRIBUTING.md has the rules")
        finally:
            sys.argv = arguments


if __name__ == "__main__":
    unittest.main()
