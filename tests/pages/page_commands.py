"""Finds the commands of pages and compares them with the commands and options that the program has.

A command is what a reader would type: a line of a code block, or inline code, whose program is neuronmm. A line may
have a prompt ("$ "), variables before the program, a launcher such as mpirun, and several commands with pipes between
them. Synopses are commands, too: "[--bits 4]" is optional, "8|6|4" has alternatives, and "..." stands for anything.
"""

import itertools
import pathlib
import re
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

# Blocks in these languages hold no commands.
OTHER_LANGUAGES = {"python", "py", "cpp", "c++", "c", "json", "yaml", "toml", "cmake", "nginx", "html", "text"}
# Programs that start another one, which follows after their options.
LAUNCHERS = {"mpirun", "time", "/usr/bin/time", "timeout", "taskset", "nohup", "sudo", "env"}
SEPARATORS = {"|", "||", "&&", ";", "&"}
# Replaces the bar of alternatives, so that it is no pipe.
BAR = "\x00"
PLACEHOLDER = re.compile(r"[A-Z][A-Z_]*(\.{3})?|\.{3}|.*\$.*")

# An option or a command, as `neuronmm describe json` prints it.
Description = dict[str, Any]


class Command(NamedTuple):
    page: pathlib.Path
    line: int
    text: str  # as it is typed, on one line and without the prompt
    inline: bool  # a mention in a sentence, which may be incomplete

    @property
    def is_synopsis(self) -> bool:
        marks = (BAR, "...", "\u2026")
        return any(mark in self.text for mark in marks) or bool(re.search(r"(^|\s)\[", self.text))


class Call(NamedTuple):
    """A call of neuronmm with its options, as the description of the program names them."""

    command: str
    options: list[tuple[str, list[str]]]  # the name as it is typed, and the values
    positionals: list[str]


def without_comment(line: str) -> str:
    """Removes what follows a "#" that is in no quotes."""
    for match in re.finditer(r"(^|\s)#", line):
        before = line[: match.start()]
        if before.count('"') % 2 == 0 and before.count("'") % 2 == 0:
            return before
    return line


def words_of(text: str) -> list[str]:
    """Splits a command line as a shell does, with "|", "&&" and so on as words of their own."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    return list(lexer)


def simple_commands(text: str) -> list[list[str]]:
    """Splits a command line at pipes, && and so on. Redirections are removed."""
    commands: list[list[str]] = [[]]
    words = iter(words_of(text))
    for word in words:
        if word in SEPARATORS:
            commands.append([])
        elif re.fullmatch(r"[<>]+&?", word):
            next(words, None)
        else:
            commands[-1].append(word)
    return [command for command in commands if command]


def arguments_of(words: list[str]) -> list[str] | None:
    """Returns what follows neuronmm in a simple command, or None if another program is called."""
    words = list(itertools.dropwhile(lambda word: re.match(r"\w+=", word), words))
    launched = bool(words) and words[0] in LAUNCHERS
    for i, word in enumerate(words):
        if pathlib.PurePath(word).name == "neuronmm":
            return words[i + 1 :]
        if not launched:
            return None
    return None


def is_call(text: str) -> bool:
    """Returns whether a line calls neuronmm. Lines of its output, such as "neuronmm fit: ...", do not."""
    try:
        calls = [arguments_of(words) for words in simple_commands(text)]
    except ValueError:  # an open quote
        calls = [text.split()[1:]] if re.match(r"\s*(\S*/)?neuronmm\s", text) else []
    return any(call is not None and (not call or re.fullmatch(rf"[a-z{BAR}-]+", call[0])) for call in calls)


def command_of(page: pathlib.Path, line: int, text: str, inline: bool) -> Command | None:
    text = re.sub(r"(?<=\S)\|(?=\S)", BAR, without_comment(re.sub(r"^\s*[$>]\s+", "", text)).strip())
    return Command(page, line, text, inline) if is_call(text) else None


def block_lines(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yields the lines of a page with their numbers and whether they are in a block that may hold commands."""
    fence, holds = "", False
    for number, line in enumerate(text.split("\n"), 1):
        mark = re.match(r"\s*(```+|~~~+)\s*([\w+]*)", line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
            holds = mark[2].lower() not in OTHER_LANGUAGES
        elif fence:
            if holds:
                yield number, line, True
        else:
            yield number, line, line.startswith("    ")


def commands_of(page: pathlib.Path, text: str) -> Iterator[Command]:
    """Yields the commands of a page in their order."""
    begun, first = "", 0
    for number, line, in_block in block_lines(text):
        if not in_block:
            for _, code in re.findall(r"(`+)(.+?)\1", line):
                if re.match(r"(\S*/)?neuronmm\s", code) and (found := command_of(page, number, code, True)):
                    yield found
            continue
        first = first if begun else number
        begun += line
        if begun.rstrip().endswith("\\"):
            begun = begun.rstrip()[:-1] + " "
        else:
            if found := command_of(page, first, begun, False):
                yield found
            begun = ""


def alternatives(words: list[str]) -> Iterator[list[str]]:
    """Yields the words with each choice of "a|b", and without the brackets and dots of synopses."""
    plain = []
    for word in words:
        word = word.removeprefix("[") if word.startswith("[") else word
        word = word[:-1] if word.endswith("]") and "[" not in word else word
        plain.append((word if word == "..." else word.removesuffix("...")).split(BAR))
    for choice in itertools.islice(itertools.product(*plain), 64):
        yield [word for word in choice if word]


def option_named(name: str, command: Description) -> Description | None:
    return next((o for o in command["options"] if name in o["names"]), None)


def accepts(option: Description, value: str) -> bool:
    """Returns whether an option with a list of choices has this value. Placeholders are accepted."""
    choices = option.get("choices")
    return not choices or bool(PLACEHOLDER.fullmatch(value)) or value in choices


def parse_call(words: list[str], program: Description, complete: bool) -> Call | str:
    """Returns the call, or what is wrong with it. An incomplete one may lack values."""
    if not words or words[0].startswith("-"):
        return parse_options("", words, program, complete)
    command = program["commands"].get(words[0])
    if not command:
        return f'there is no command "{words[0]}"'
    return parse_options(words[0], words[1:], command, complete)


def parse_options(name: str, words: list[str], command: Description, complete: bool) -> Call | str:
    call = Call(name, [], [])
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not re.match(r"--?[A-Za-z]", word):
            call.positionals.append(word)
            continue
        flag, _, joined = word.partition("=")
        option = option_named(flag, command)
        if not option:
            return f'"{name}" has no option {flag}'
        least, most = option["values"]
        values = [joined] if joined else []
        while rest and len(values) < most and not re.match(r"--?[A-Za-z]", rest[0]):
            values.append(rest.pop(0))
        if len(values) < least and complete:
            return f"{flag} has no value"
        for value in values:
            if not accepts(option, value):
                return f'{flag} accepts {", ".join(option["choices"])}, not "{value}"'
        call.options.append((flag, values))
    return call


def missing_or_extra(call: Call, command: Description) -> str | None:
    """Returns which argument of a complete command is missing or too much."""
    positionals = [option for option in command["options"] if option["positional"]]
    least = sum(option["required"] for option in positionals)
    most = sum(option["values"][1] for option in positionals)
    if len(call.positionals) < least:
        return f"{positionals[len(call.positionals)]['names'][0]} is missing"
    if len(call.positionals) > most:
        return f'"{call.positionals[most]}" is one argument too many; comments begin with #'
    for option in command["options"]:
        given = any(name in option["names"] for name, _ in call.options)
        if option["required"] and not option["positional"] and not given:
            return f"{option['names'][-1]} is missing"
    for option, value in zip(positionals, call.positionals, strict=False):
        if not accepts(option, value):
            return f'{option["names"][0]} accepts {", ".join(option["choices"])}, not "{value}"'
    return None


def calls_of(command: Command, program: Description) -> list[Call] | str:
    """Returns the calls of neuronmm in a command line, or what is wrong with one of them."""
    calls: list[Call] = []
    try:
        parts = simple_commands(command.text)
    except ValueError as error:
        return f"{error} in the command"
    for words in filter(None, map(arguments_of, parts)):
        for choice in alternatives(words):
            call = parse_call(choice, program, not command.inline)
            if isinstance(call, str):
                return call
            described = program["commands"].get(call.command, program)
            helps = any(name in ("-h", "--help", "--help-all", "--version") for name, _ in call.options)
            fault = None if command.inline or command.is_synopsis or helps else missing_or_extra(call, described)
            if fault:
                return f"{call.command}: {fault}"
            calls.append(call)
    return calls
