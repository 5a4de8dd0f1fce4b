"""Writes tests/text/golden_tokenizers.json for the unit tests.

usage: golden.py CORPUS OUT

The file holds random pipelines with the ids and texts that the tokenizers library gives for them.
"""

import json
import pathlib
import random
import sys

from tokenizers import Tokenizer

import pipelines
import texts

PIPELINES = 50
TEXTS = ["Hello  world,\n the 12th in\ttest's", " a▁b é<s>the x</s> lo [TOK]", "漢字 ＡＢ ﬁ ½ ǅ́ 👍🏽 \u200d\x00", "", "  "]


class Golden(pipelines.Pipelines):
    """Pipelines whose models stay as they were trained, so that the file holds each model only
    once.
    """

    def model(self):
        self.base = self.rng.randrange(len(self.models))
        model = self.models[self.base]
        self.options = {"byte_fallback": self.flip(), "fuse_unk": self.flip(), "ignore_merges": self.flip(0.3),
                        "unk_token": self.rng.choice([t for t in ("<unk>", "e") if t in model["vocab"]] + [None])}
        return {**model, **self.options}


def main():
    rng = random.Random(12)
    make = Golden(rng, pathlib.Path(sys.argv[1]).read_text()[:100_000].split("\n"), 0.5)
    cases = []
    while len(cases) < PIPELINES:
        definition = make.next()
        base, options = make.base, make.options
        if pipelines.is_ambiguous(definition):
            continue
        try:
            tokenizer = Tokenizer.from_str(json.dumps(definition))
            sample = TEXTS + [texts.random_text(rng, 6, texts.SIGNS) for _ in range(3)]
            answers = [(text, ids := tokenizer.encode(text).ids, tokenizer.decode(ids, skip_special_tokens=False),
                        tokenizer.decode(ids, skip_special_tokens=True)) for text in sample]
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            continue
        del definition["model"], definition["truncation"], definition["padding"]
        cases.append({"model": base, "options": options, "tokenizer": definition,
                      "texts": [dict(zip(("text", "ids", "decoded", "without_special"), answer)) for answer in answers]})
    models = [{k: v for k, v in model.items() if v is not None} for model in make.models]
    for model in models:
        model["merges"] = [" ".join(merge) if not any(" " in half for half in merge) else merge for merge in model["merges"]]
    lines = ['{"models": [', ",\n".join(json.dumps(model, ensure_ascii=False) for model in models), '], "cases": [',
             ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases), "]}"]
    pathlib.Path(sys.argv[2]).write_text("\n".join(lines) + "\n", encoding="utf-8")


main()
