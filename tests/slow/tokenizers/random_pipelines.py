"""Compares ids and texts of random pipelines with the tokenizers library.

usage: random_pipelines.py PROGRAM CORPUS COUNT [SEED]

PROGRAM is tokenizer_lines.
"""

import json
import pathlib
import random
import sys
import tempfile
import time

from tokenizers import Tokenizer

import lines
import pipelines
import texts
import unicode_tables

TEXTS_PER_PIPELINE = 25


def without_model(definition):
    return json.dumps({**{k: v for k, v in definition.items() if k != "model"},
                       "model": {k: v for k, v in definition["model"].items() if k not in ("vocab", "merges")}}, ensure_ascii=False)


def theirs(tokenizer, text):
    """Returns the library's ids and text, or None if the library panics."""
    try:
        ids = tokenizer.encode(text).ids
        return ids, tokenizer.decode(ids, skip_special_tokens=False)
    # A PanicException of pyo3 does not derive from Exception.
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return None


def main():
    program, corpus, count = sys.argv[1], pathlib.Path(sys.argv[2]).read_text()[:300_000], int(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else time.time_ns() % 1_000_000
    print(f"seed {seed}")
    rng = random.Random(seed)
    make = pipelines.Pipelines(rng, corpus.split("\n"))
    ours = lines.Ours(program)
    differing = unicode_tables.differing(ours)
    print(f"left out: {len(differing)} characters of which the Unicode tables differ")
    texts.leave_out(differing)
    path = pathlib.Path(tempfile.mkdtemp()) / "tokenizer.json"
    compared = refused = panics = ids_compared = wrong = 0
    for number in range(count):
        definition = make.next()
        source = json.dumps(definition, ensure_ascii=False)
        try:
            tokenizer = Tokenizer.from_str(source)
        except BaseException as error:
            refused += 1
            continue
        if pipelines.is_ambiguous(definition):
            continue
        path.write_text(source, encoding="utf-8")
        error = ours.load(path)
        if error:
            print(f"pipeline {number}: refused by us only: {error}\n  {without_model(definition)}")
            wrong += 1
            continue
        sample = [""] + [texts.random_text(rng, rng.choice([1, 3, 8, 30])) for _ in range(TEXTS_PER_PIPELINE)]
        start = rng.randrange(len(corpus) - 400)
        sample.append(corpus[start:start + 400])
        answers = [theirs(tokenizer, text) for text in sample]
        panics += answers.count(None)
        pairs = [(text, answer) for text, answer in zip(sample, answers) if answer]
        ids, text, streamed = ours.run([text for text, _ in pairs])
        for i, (input_text, (their_ids, their_text)) in enumerate(pairs):
            ids_compared += len(their_ids)
            what = ("ids" if ids[i] != their_ids else "text" if text[i] != their_text
                    else "stream" if streamed[i] != their_text and "\ufffd" not in their_text else None)
            if what:
                wrong += 1
                print(f"pipeline {number}: {what} of {input_text!r}\n  ours   {ids[i]} {text[i]!r} {streamed[i]!r}\n"
                      f"  theirs {their_ids} {their_text!r}\n  {without_model(definition)}")
                (path.parent / f"wrong{number}.json").write_text(source, encoding="utf-8")
                break
        compared += 1
    print(f"{compared} pipelines, {ids_compared} ids, {wrong} wrong, {refused} refused by the library, {panics} texts it panics on")
    sys.exit(1 if wrong or not compared else 0)


main()
