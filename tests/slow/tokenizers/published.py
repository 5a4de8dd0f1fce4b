"""Compares ids and texts of published tokenizers with the tokenizers library.

usage: published.py PROGRAM DATA SOURCES TOKENIZER.json...

PROGRAM is tokenizer_lines, DATA the folder of test data and SOURCES a folder of source code. The
texts are articles, source code and random characters.
"""

import json
import pathlib
import random
import sys
import tempfile

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import lines
import texts
import unicode_tables

IDS_OF_RANDOM_TEXT = 1_000_000


def gpt2(folder):
    """Returns the path of a tokenizer.json made from GPT-2's two files."""
    tokenizer = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    path = pathlib.Path(tempfile.mkdtemp()) / "gpt2.json"
    tokenizer.save(str(path))
    return path


def pieces(text, size):
    return [text[i:i + size] for i in range(0, len(text), size)]


def documents(data, sources):
    """Yields names and lists of texts."""
    wiki = "".join((data / "text" / name).read_text() for name in ("wiki.test.raw", "wiki.valid.raw"))
    yield "WikiText-2 whole", [wiki]
    yield "WikiText-2 in lines", wiki.split("\n")
    yield "C4", [json.loads(line)["text"] for line in (data / "text" / "c4_sample.jsonl").read_text().split("\n") if line]
    code = [path.read_text(errors="replace") for suffix in ("*.cc", "*.h", "*.py", "*.md", "*.txt") for path in sorted(sources.rglob(suffix))
            if "build" not in path.parts]
    yield "source code", code
    yield "source code in pieces", [piece for text in code for piece in pieces(text, 500)]


def random_documents(rng):
    while True:
        yield texts.random_text(rng, rng.choice([1, 5, 20, 100, 1000]))


def compare(name, kind, sample, tokenizer, ours):
    """Returns the number of ids, and the number of texts whose ids or text differ from the
    library's.
    """
    count = wrong = 0
    ids, decoded, streamed = ours.run(sample)
    for i, encoding in enumerate(tokenizer.encode_batch(sample)):
        count += len(encoding.ids)
        text = tokenizer.decode(encoding.ids, skip_special_tokens=False)
        if ids[i] != encoding.ids or decoded[i] != text or (streamed[i] != text and "\ufffd" not in text):
            wrong += 1
            if wrong < 4:
                print(f"{name}, {kind}: {sample[i][:300]!r}\n  ours   {ids[i][:60]}\n  theirs {encoding.ids[:60]}")
    return count, wrong


def main():
    program, data, sources = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    texts.leave_out(unicode_tables.differing(lines.Ours(program)))
    failed = False
    for path in [gpt2(data / "tokenizers" / "gpt2")] + [pathlib.Path(p) for p in sys.argv[4:]]:
        ours = lines.Ours(program)
        error = ours.load(path)
        if error:
            print(error)
            failed = True
            continue
        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        report = []
        for kind, sample in documents(data, sources):
            report.append((kind, *compare(path, kind, sample, tokenizer, ours)))
        count = wrong = 0
        generator = random_documents(random.Random(seed))
        while count < IDS_OF_RANDOM_TEXT:
            more = compare(path, "random characters", [next(generator) for _ in range(100)], tokenizer, ours)
            count, wrong = count + more[0], wrong + more[1]
        report.append(("random characters", count, wrong))
        failed |= any(wrong for _, _, wrong in report)
        print(f"{path.parent.name}/{path.name}: " + ", ".join(f"{kind} {count} ids" + (f" ({wrong} WRONG)" if wrong else "")
                                                            for kind, count, wrong in report), flush=True)
    sys.exit(failed)


main()
