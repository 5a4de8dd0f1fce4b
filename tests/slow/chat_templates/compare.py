"""Renders every template with every conversation and compares neuronmm's text with jinja2's.

usage: compare.py PROGRAM FOLDER...

PROGRAM is render_lines. The templates are the files *.jinja of the folders. The exit code is 1 if a
text differs or if no template gives a text.
"""

import collections
import pathlib
import sys

import conversations
import oracle


def main():
    ours = oracle.Ours(sys.argv[1])
    counts = collections.Counter()
    shown = 0
    for folder in sys.argv[2:]:
        for path in sorted(pathlib.Path(folder).glob("*.jinja")):
            template = path.read_bytes().decode()
            counts["templates"] += 1
            good = True
            for name, context in conversations.contexts():
                text, error = oracle.expected(template, context)
                our_text, our_error = ours.render(template, context)
                counts["texts" if text is not None else "errors"] += 1
                if text == our_text:
                    continue
                good = False
                counts["different"] += 1
                shown += 1
                if shown <= 20:
                    print(f"{path.name}, {name}:\n  jinja2: {text!r} {error}\n  ours:   {our_text!r} {our_error}")
            counts["equal templates"] += good
    print(dict(counts))
    return 1 if counts["different"] or not counts["texts"] else 0


if __name__ == "__main__":
    sys.exit(main())
