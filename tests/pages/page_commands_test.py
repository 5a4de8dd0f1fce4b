#!/usr/bin/env python3
"""Tests of page_commands.py: what counts as a command of a page, and which faults are found."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from page_commands import BAR, calls_of, command_of, commands_of, words_of  # noqa: E402

PAGE = pathlib.Path("page.md")


def option(*names: str, values: tuple[int, int] = (1, 1), **more: object) -> dict[str, object]:
    return {"names": list(names), "positional": False, "required": False, "values": list(values), **more}


def positional(name: str, most: int = 1, required: bool = True) -> dict[str, object]:
    return {"names": [name], "positional": True, "required": required, "values": [1, most]}


PROGRAM = {
    "options": [option("--version", values=(0, 0)), option("-h", "--help", values=(0, 0))],
    "commands": {
        "fit": {
            "options": [
                positional("MODEL"),
                option("-h", "--help", values=(0, 0)),
                option("-o", "--output", required=True),
                option("--device", choices=["cpu", "trn1"]),
                option("--force", values=(0, 0)),
                option("--text"),
            ]
        },
        "paper": {"options": [{**positional("FIGURE"), "choices": ["kernels", "forms"]}]},
    },
}


def fault_of(text: str, inline: bool = False) -> str | None:
    command = command_of(PAGE, 1, text, inline)
    assert command, text
    calls = calls_of(command, PROGRAM)
    return calls if isinstance(calls, str) else None


class Found(unittest.TestCase):
    def found(self, text: str) -> list[tuple[int, str, bool]]:
        return [(command.line, command.text, command.inline) for command in commands_of(PAGE, text)]

    def test_commands_stand_in_blocks_and_in_code(self) -> None:
        text = (
            "Call `neuronmm fit` or `fit`, not ``neuronmm paper x``.\n\n    neuronmm fit a\n\n"
            "```\n$ neuronmm fit b  # a comment\nneuronmm fit: b: not there\nneuronmm 1.0\nother\n"
            "neuronmm fit c \\\n  --force\n```\nneuronmm fit d\n"
        )
        self.assertEqual(
            self.found(text),
            [
                (1, "neuronmm fit", True),
                (1, "neuronmm paper x", True),
                (3, "neuronmm fit a", False),
                (6, "neuronmm fit b", False),
                (10, "neuronmm fit c    --force", False),
            ],
        )

    def test_blocks_of_other_languages_have_none(self) -> None:
        text = "```python\nneuronmm fit a\n```\n```sh\nneuronmm fit b\n```"
        self.assertEqual(self.found(text), [(5, "neuronmm fit b", False)])

    def test_variables_launchers_and_pipes_are_understood(self) -> None:
        for text in (
            "A=1 neuronmm fit a -o b",
            "mpirun -n 4 neuronmm fit a -o b",
            "/usr/bin/time -v build/release/neuronmm fit a -o b",
            "echo a | neuronmm fit a -o b > log",
        ):
            self.assertEqual(self.found("    " + text), [(1, text, False)], text)
            self.assertIsNone(fault_of(text), text)
        self.assertEqual(self.found("    bench/speed.py build/neuronmm fit"), [])

    def test_a_hash_in_quotes_is_no_comment(self) -> None:
        self.assertEqual(words_of('neuronmm fit --text "# a"'), ["neuronmm", "fit", "--text", "# a"])
        self.assertEqual(self.found('    neuronmm fit --text "# a" # b'), [(1, 'neuronmm fit --text "# a"', False)])


class Faults(unittest.TestCase):
    def test_good_commands_have_none(self) -> None:
        for text in (
            "neuronmm fit a -o b",
            "neuronmm fit a --output=b --device cpu --force",
            "neuronmm fit a -o b --device DEVICE",
            'neuronmm fit a -o b --device "$device"',
            "neuronmm paper forms",
            "neuronmm fit --help",
            "neuronmm --version",
            "neuronmm fit a -o b && neuronmm paper kernels",
        ):
            self.assertIsNone(fault_of(text), text)

    def test_names_that_are_not_there_are_found(self) -> None:
        self.assertEqual(fault_of("neuronmm fitt a"), 'there is no command "fitt"')
        self.assertEqual(fault_of("neuronmm fit a -o b --forse"), '"fit" has no option --forse')
        fault = 'paper: FIGURE accepts kernels, forms, not "x"'
        self.assertEqual(fault_of("echo | neuronmm fit a -o b; neuronmm paper x"), fault)

    def test_values_are_compared_with_the_choices(self) -> None:
        self.assertEqual(fault_of("neuronmm fit a -o b --device gpu"), '--device accepts cpu, trn1, not "gpu"')
        self.assertEqual(fault_of("neuronmm fit a -o b --device"), "--device has no value")

    def test_complete_commands_have_all_arguments_and_no_more(self) -> None:
        self.assertEqual(fault_of("neuronmm fit -o b"), "fit: MODEL is missing")
        self.assertEqual(fault_of("neuronmm fit a"), "fit: --output is missing")
        fault = 'fit: "why" is one argument too many; comments begin with #'
        self.assertEqual(fault_of("neuronmm fit a -o b   why"), fault)
        for mention in ("neuronmm fit", "neuronmm fit --device", "neuronmm fit --force"):
            self.assertIsNone(fault_of(mention, inline=True), mention)

    def test_synopses_name_alternatives_and_options(self) -> None:
        for text in (
            "neuronmm fit ... --device cpu|trn1",
            "neuronmm fit MODEL... [--force] [--device cpu]",
            "neuronmm fit|paper ...",
        ):
            command = command_of(PAGE, 1, text, False)
            assert command and command.is_synopsis, text
            self.assertIsNone(fault_of(text), text)
        self.assertEqual(fault_of("neuronmm fit ... --device cpu|gpu"), '--device accepts cpu, trn1, not "gpu"')
        self.assertEqual(fault_of("neuronmm fit ... [--forse]"), '"fit" has no option --forse')
        self.assertIn(BAR, command_of(PAGE, 1, "neuronmm fit a|b", False).text)  # type: ignore[union-attr]


if __name__ == "__main__":
    unittest.main()
