#!/usr/bin/env python3
"""Writes a training text for bench/recovery.sh that has more than the texts of that script.

    recovery_text.py MODEL_DIR DATA_DIR OUT.jsonl [--more TEXT ...] [--sequences 2400] [--length 512] [--device cuda]
    TRAIN=OUT.jsonl bench/recovery.sh MODEL_DIR DATA_DIR

The output has three parts: all texts of recovery.sh twice, the texts of --more, and texts that the
dense model in MODEL_DIR writes at temperature 1. One half of the latter begins with the
begin-of-text token, and the other half continues 24 tokens of the texts. PyTorch and transformers
generate them, because both run on a GPU. There 1.2 million tokens of a model with 135 million
parameters took 48 s. Neither package is needed with --sequences 0.

No text that recovery.sh reports on, or chooses by, is in the output. Documents of --more that share
ten words in a row with such a text are left out.
"""

import argparse
import json
import pathlib
import random
import re

PREFIX_TOKENS = 24  # tokens of a text that the model continues
SHARED_WORDS = 10  # words in a row that a document may not share with a held-out text
MIN_CHARACTERS = 200  # shorter pieces are menus and headings


def training_texts(folder):
    """Returns C4's documents 0-199, WikiText-2's validation articles after its first 62 kB, and
    Alpaca's answers in groups of eight.
    """
    documents = [json.loads(line)["text"] for line in open(folder / "c4_sample.jsonl")][:200]
    wiki = (folder / "wiki.valid.raw").read_text()
    articles = re.split(r"\n(?= = [^=].*[^=] = \n)", wiki[wiki.index("\n = ", 62000):])
    answers = [" ".join(filter(None, (one["instruction"], one.get("input"), one["output"])))
               for one in json.load(open(folder / "alpaca_sample.json"))]
    groups = ["\n\n".join(answers[i:i + 8]) for i in range(0, len(answers), 8)]
    return documents + [article for article in articles if len(article) > 300] + groups


def held_out(folder):
    """Returns the texts that recovery.sh reports on and chooses by."""
    documents = [json.loads(line)["text"] for line in open(folder / "c4_sample.jsonl")][200:300]
    return "\n".join([*documents, (folder / "wiki.test.raw").read_text(), (folder / "wiki.valid.raw").read_text()[:62000]])


def word_sequences(text):
    words = re.findall(r"\w+", text.lower())
    return set(zip(*(words[i:] for i in range(SHARED_WORDS))))


def more_documents(paths, forbidden):
    for path in paths:
        text = path.read_text()
        pieces = re.split(r"</?doc\b[^>]*>", text) if "<doc " in text else text.split("\n")
        for piece in map(str.strip, pieces):
            if len(piece) > MIN_CHARACTERS and forbidden.isdisjoint(word_sequences(piece)):
                yield piece


def generated_texts(texts, arguments, random_source):
    """Yields `--sequences` texts that the model in MODEL_DIR writes."""
    import torch
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    @torch.no_grad()
    def sampled(ids):
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
    ids = [one for one in ids if len(one) > PREFIX_TOKENS]

    def prefix():
        one = random_source.choices(ids, [len(one) for one in ids])[0]
        first = random_source.randrange(len(one) - PREFIX_TOKENS)
        return [start] + one[first:first + PREFIX_TOKENS]

    half = arguments.sequences // 2
    for begin in ([prefix() for _ in range(half)], [[start]] * (arguments.sequences - half)):
        if begin:
            tokens = sampled(torch.tensor(begin, device=arguments.device))
            yield from tokenizer.batch_decode(tokens[:, 1:].tolist(), skip_special_tokens=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, metavar="MODEL_DIR", help="folder of the dense model")
    parser.add_argument("data", type=pathlib.Path, metavar="DATA_DIR", help="folder with text/, as for recovery.sh")
    parser.add_argument("out", type=pathlib.Path, metavar="OUT.jsonl", help="file to write, one text per line")
    parser.add_argument("--more", type=pathlib.Path, nargs="+", default=[], metavar="TEXT",
                        help="text files with a document per line or per <doc> element; a file named twice is used twice")
    parser.add_argument("--sequences", type=int, default=2400,
                        help="number of sequences that the model writes (default 2400)")
    parser.add_argument("--length", type=int, default=512, help="tokens in each of these sequences (default 512)")
    parser.add_argument("--device", default="cuda", help="PyTorch device that the model runs on (default cuda)")
    arguments = parser.parse_args()
    random_source = random.Random(1)

    texts = training_texts(arguments.data / "text")
    forbidden = word_sequences(held_out(arguments.data / "text")) if arguments.more else set()
    out = texts + texts + list(more_documents(arguments.more, forbidden))
    if arguments.sequences > 0:
        out += generated_texts(texts, arguments, random_source)
    if arguments.more:
        random_source.shuffle(out)
    with open(arguments.out, "w") as file:
        for text in filter(None, out):
            file.write(json.dumps({"text": text}) + "\n")


if __name__ == "__main__":
    main()
