#!/usr/bin/env python3
"""Training text for bench/recovery.sh beyond what its texts have: all of them twice, other texts, and what the dense model writes at
temperature 1, half of it from its begin-of-text token and half behind 24 tokens of the texts. PyTorch and transformers write it,
because they do on a GPU: 1.2 million tokens of a model of 135 million parameters took 48 s there; with --sequences 0
neither is needed.

    recovery_text.py MODEL_DIR DATA_DIR OUT.jsonl [--more TEXT ...] [--sequences 2400] [--length 512] [--device cuda]

--more: plain text with a document per line, or per <doc> element; a file that is named twice is in it twice. Documents that have
ten words in a row of what recovery.sh reports on, or chooses by, are left out.
Then TRAIN=OUT.jsonl bench/recovery.sh ... trains on it. What recovery.sh reports on, and what chooses, is not in it.
"""

import argparse
import json
import pathlib
import random
import re

PREFIX = 24  # tokens
SHARED = 10  # words
SHORT = 200  # characters: menus and headings


def texts_of(folder):
    """Returns C4's documents 0-199, WikiText-2's validation articles after its first 62 kB, and
    Alpaca's answers in groups of eight.
    """
    documents = [json.loads(line)["text"] for line in open(folder / "c4_sample.jsonl")][:200]
    wiki = (folder / "wiki.valid.raw").read_text()
    articles = re.split(r"\n(?= = [^=].*[^=] = \n)", wiki[wiki.index("\n = ", 62000):])
    answers = [" ".join(filter(None, (one["instruction"], one.get("input"), one["output"])))
               for one in json.load(open(folder / "alpaca_sample.json"))]
    eights = ["\n\n".join(answers[i:i + 8]) for i in range(0, len(answers), 8)]
    return documents + [article for article in articles if len(article) > 300] + eights


def held_out(folder):
    """Returns the texts that recovery.sh reports on and chooses by."""
    documents = [json.loads(line)["text"] for line in open(folder / "c4_sample.jsonl")][200:300]
    return "\n".join([*documents, (folder / "wiki.test.raw").read_text(), (folder / "wiki.valid.raw").read_text()[:62000]])


def runs_of_words(text):
    words = re.findall(r"\w+", text.lower())
    return set(zip(*(words[i:] for i in range(SHARED))))


def others(paths, forbidden):
    for path in paths:
        text = path.read_text()
        pieces = re.split(r"</?doc\b[^>]*>", text) if "<doc " in text else text.split("\n")
        for piece in map(str.strip, pieces):
            if len(piece) > SHORT and forbidden.isdisjoint(runs_of_words(piece)):
                yield piece


def model_writes(texts, arguments, chance):
    """Yields `--sequences` texts that the model in MODEL_DIR writes."""
    import torch
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    @torch.no_grad()
    def written(ids):
        """Returns [sequences, length]: `ids` and tokens sampled after them from the whole
        distribution.
        """
        pieces, past = [ids], None
        while sum(piece.shape[1] for piece in pieces) < arguments.length:
            out = model(input_ids=ids, past_key_values=past, use_cache=True, logits_to_keep=1)
            past, shares = out.past_key_values, out.logits[:, -1].float().softmax(-1)
            ids = (shares / torch.empty_like(shares).exponential_()).argmax(-1, keepdim=True)
            pieces.append(ids)
        return torch.cat(pieces, 1)

    torch.manual_seed(1)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(arguments.model / "tokenizer.json"))
    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.bfloat16).to(arguments.device).eval()
    start = json.load(open(arguments.model / "config.json"))["bos_token_id"]
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    ids = [one for one in ids if len(one) > PREFIX]

    def prefix():
        one = chance.choices(ids, [len(one) for one in ids])[0]
        first = chance.randrange(len(one) - PREFIX)
        return [start] + one[first:first + PREFIX]

    half = arguments.sequences // 2
    for begin in ([prefix() for _ in range(half)], [[start]] * (arguments.sequences - half)):
        if begin:
            tokens = written(torch.tensor(begin, device=arguments.device))
            yield from tokenizer.batch_decode(tokens[:, 1:].tolist(), skip_special_tokens=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--more", type=pathlib.Path, nargs="+", default=[])
    parser.add_argument("--sequences", type=int, default=2400)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    chance = random.Random(1)

    texts = texts_of(arguments.data / "text")
    forbidden = runs_of_words(held_out(arguments.data / "text")) if arguments.more else set()
    out = texts + texts + list(others(arguments.more, forbidden))
    if arguments.sequences > 0:
        out += model_writes(texts, arguments, chance)
    if arguments.more:
        chance.shuffle(out)
    with open(arguments.out, "w") as file:
        for text in filter(None, out):
            file.write(json.dumps({"text": text}) + "\n")


if __name__ == "__main__":
    main()
