"""Prints random literals of Python, each with the JSON of the value that Python gives it.

The output is a JSON array of pairs. The literals have all forms that models may write: both quotes,
three quotes, prefixes, escapes, adjacent strings, tuples, trailing commas and spaces.
"""
import ast
import json
import random
import sys

CHARACTERS = ["a", "Z", "0", " ", "'", '"', "\\", "\n", "\t", "\r", "é", "東", "😀", "{", "}", "[", "]", "(", ")",
              ",", ":", "=", "#", "\x01", "\x7f", "<", "&"]


def text():
    return "".join(random.choices(CHARACTERS, k=random.randrange(9)))


def escaped(value, quote):
    """Writes the characters of a string, each in one of its forms, between these quotes."""
    pieces = []
    for c in value:
        code = ord(c)
        plain = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\"}.get(c, c)
        if c in "'\"" and (c == quote[0]):
            plain = "\\" + c
        forms = [plain] * 6 + ["\\u%04x" % code if code < 0x10000 else "\\U%08x" % code]
        if code < 256:
            forms += ["\\x%02X" % code, "\\%03o" % code]
        if c == "\n" and len(quote) == 3:
            forms.append(c)
        pieces.append(random.choice(forms))
        if random.random() < 0.02:
            pieces.append("\\\n")
    return quote + "".join(pieces) + quote


def string():
    quote = random.choice(["'", '"', "'", '"', "'''", '"""'])
    kind = random.random()
    if kind < 0.1:
        return random.choice("rR") + quote + "a\\d+\\.\\w " + quote
    if kind < 0.2 and len(quote) == 1:
        return escaped(text(), quote) + " " + escaped(text(), random.choice("'\""))
    return random.choice(["", "", "", "u"]) + escaped(text(), quote)


def number():
    return random.choice(["0", "7", "-12", "+3", "1_000", "0x1F", "0o17", "0b101", "1.5", ".5", "5.", "-1e3",
                          "2.5E-3", "1e+2", "00", str(random.randrange(10**15)), repr(random.uniform(-9, 9))])


def space():
    return random.choice(["", "", " ", "\n  "])


def literal(depth):
    kind = random.randrange(7 if depth else 4)
    if kind == 0:
        return number()
    if kind == 1:
        return random.choice(["True", "False", "None"])
    if kind in (2, 3):
        return string()
    comma = random.choice(["", ",", ", "])
    count = random.randrange(4)
    if kind == 4:
        keys = [random.choice([string(), "1", "None"]) for _ in range(count)]
        items = [f"{key}{space()}:{space()}{literal(depth - 1)}" for key in keys]
    else:
        items = [literal(depth - 1) for _ in range(count)]
    begin, end = {4: "{}", 5: "[]", 6: "()"}[kind]
    inside = f"{space()},{space()}".join(items)
    return begin + space() + inside + (comma if items else "") + space() + end


def main():
    pairs = []
    while len(pairs) < int(sys.argv[1]):
        source = literal(3)
        value = ast.literal_eval(source)
        pairs.append([source, json.dumps(value)])
    print(json.dumps(pairs))


main()
