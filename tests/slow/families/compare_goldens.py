#!/usr/bin/env python3
"""Fails if golden files that were made anew differ from the committed ones.

usage: compare_goldens.py COMMITTED NEW

Everything is equal except the version of transformers and the logits, which may differ by 1e-5 of the
largest one.
"""

import base64
import json
import sys
from pathlib import Path

import numpy as np


def floats(text):
    return np.frombuffer(base64.b64decode(text), dtype="<f4")


def main(committed, new):
    names = {path.name for path in Path(committed).iterdir()}
    assert names == {path.name for path in Path(new).iterdir()}, "other golden files"
    for name in sorted(names):
        old, made = (json.loads((Path(folder) / name).read_text()) for folder in (committed, new))
        for golden in (old, made):
            golden.pop("made_by")
            golden["config"].pop("transformers_version", None)
        for key in ("logits", "prefix_logits"):
            a, b = floats(old.pop(key, "")), floats(made.pop(key, ""))
            assert a.shape == b.shape and (a.size == 0 or np.abs(a - b).max() <= 1e-5 * np.abs(a).max()), f"{name}: {key}"
        assert old == made, f"{name}: the recipe has changed"
    print(f"{len(names)} golden files are as committed")


if __name__ == "__main__":
    main(*sys.argv[1:])
