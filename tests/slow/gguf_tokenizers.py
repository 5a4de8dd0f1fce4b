"""Tests the tokenizers that `neuronmm import` writes.

usage: gguf_tokenizers.py NEURONMM WORK_FOLDER [SEED [NAME...]]

For every name of tokenizer.ggml.pre a tokenizer is imported. `neuronmm tokenize` must give the ids
of the tokenizers library, which reads the same folder, for texts of many scripts. An imported
SentencePiece vocabulary must have the merges that transformers' converter produces.
"""

import json
import pathlib
import random
import re
import shutil
import subprocess
import sys

import gguf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

PROGRAM, WORK = sys.argv[1], pathlib.Path(sys.argv[2])
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(2**32)
random.seed(SEED)
print("seed", SEED)
ROOT = pathlib.Path(__file__).parents[2]

PARTS = ["Hello", " World", "don't", " WE'LL", "I'm", " camelCaseWord", "123", " 1234567", "3.14", "\n", "\n\n", " \n ", "\t",
         "   ", "      ", "\r\n", "!?!", " ...", "==>", "中文字", "、。", "ひらがな", " カタカナ", "한국어", "ㄱㄴ", "Привет", " мир",
         "naïve", "e\u0301", "Ω", "ÅNGSTRÖM", "🚀", "👩‍👩‍👧", "कान्ते", " ١٢٣", "½", "_x_", "`code`", "a/b/c", "<|x|>", "«q»", "x=1;",
         "…", "\u00a0", "\u2003", "ǅ", "ᾨ", "𐐀", "$", "^~", "(a)", "'s", "’s"]


def texts(count):
    for _ in range(count):
        yield "".join(random.choices(PARTS, k=random.randint(1, 30)))


def run(*arguments, text=None):
    result = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, input=text)
    assert result.returncode == 0, (arguments, result.stderr)
    return result.stdout


def trained():
    """Trains a byte-level vocabulary of 3000 tokens. Returns the tokens and merges.

    Training uses no pattern. Many tokens therefore extend over places where the tested patterns
    split.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=3000, special_tokens=["<|x|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([*texts(2000)], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    return sorted(model["vocab"], key=model["vocab"].get), merges


def write_byte_level(path, pre, tokens, merges):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL] + [gguf.TokenType.NORMAL] * (len(tokens) - 1))
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def names():
    source = (ROOT / "src/gguf/pre_tokenizers.cc").read_text()
    lists = re.findall(r"constexpr Names \w+\[\] = \{(.*?)\};", source, re.S)
    return [name for each in lists for name in re.findall(r'"([^"]+)"', each)]


def every_pre_tokenizer():
    tokens, merges = trained()
    for pre in names() if len(sys.argv) < 5 else sys.argv[4:]:
        shutil.rmtree(WORK / "out", ignore_errors=True)
        write_byte_level(WORK / "v.gguf", pre, tokens, merges)
        run("import", WORK / "v.gguf", "-o", WORK / "out")
        reference = Tokenizer.from_file(str(WORK / "out/tokenizer.json"))
        for text in texts(20):
            ids = [int(i) for i in run("tokenize", WORK / "out", "--", text).split()]
            expected = reference.encode(text).ids
            assert ids == expected, (pre, text, ids, expected)
        print(pre, flush=True)


def sentence_piece():
    from transformers.convert_slow_tokenizer import generate_merges

    pieces = {chr(c): 0.0 for c in range(97, 110)}
    pieces["▁"] = 0.0
    while len(pieces) < 800:
        pieces["".join(random.choices(list(pieces), k=2))] = 0.0
    pieces = {piece: -float(random.randint(0, 400)) for piece in pieces if len(piece) < 12}
    tokens = ["<unk>", "<s>", "</s>", *pieces]
    writer = gguf.GGUFWriter(WORK / "sp.gguf", "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0, 0.0, 0.0, *pieces.values()])
    writer.add_token_types([2, 3, 3] + [1] * len(pieces))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    run("import", WORK / "sp.gguf", "-o", WORK / "sp")
    found = json.loads((WORK / "sp/tokenizer.json").read_text())["model"]["merges"]
    ids = {token: i for i, token in enumerate(tokens)}
    expected = generate_merges(ids, list(pieces.items()))
    assert [tuple(merge) for merge in found] == expected, "merges differ"
    Tokenizer.from_file(str(WORK / "sp/tokenizer.json"))


shutil.rmtree(WORK, ignore_errors=True)
WORK.mkdir(parents=True)
for check in (every_pre_tokenizer, sentence_piece):
    check()
    print(check.__name__, "passed", flush=True)
