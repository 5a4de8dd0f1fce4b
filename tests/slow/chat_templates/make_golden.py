"""Records what jinja2 produces from constructs.py and from templates/.

usage: make_golden.py FILE

The file serves as the golden file of unit tests that run without Python.
"""

import json
import pathlib
import sys

import constructs
import conversations
import oracle

FOLDER = pathlib.Path(__file__).parent / "templates"
CHATS = ["one", "system_turns", "empty_content", "unicode", "html", "parts", "tools", "two_calls", "thoughts", "documents", "no_content", "odd_role"]


def case(template, context):
    text, _ = oracle.expected(template, context)
    return {"text": text}


def main():
    golden = {
        "now": oracle.NOW,
        "context": constructs.CONTEXT,
        "constructs": [{"template": line, **case(line, constructs.CONTEXT)} for line in constructs.CONSTRUCTS],
        "conversations": {name: context for name, context in conversations.contexts() if name in CHATS},
        "templates": [],
    }
    for path in sorted(FOLDER.glob("*.jinja")):
        template = path.read_bytes().decode()
        texts = {name: oracle.expected(template, context)[0] for name, context in golden["conversations"].items()}
        golden["templates"].append({"name": path.name, "template": template, "texts": texts})
    with open(sys.argv[1], "w") as file:
        json.dump(golden, file, ensure_ascii=False, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
