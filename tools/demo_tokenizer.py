"""Byte-level BPE for the demo model: learns merges from text, encodes, and writes a Hugging Face
tokenizer.json.

The split pattern is Llama-3's. Python's `re` has no \\p{L}, so that this file uses a pattern that
is equivalent for the demo's text. tokenizer.json gets the original pattern.
"""

import collections
import heapq
import json
import re

LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPLIT = re.compile(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|(?:[^\r\n\w]|_)?[^\W\d_]+|\d{1,3}|"
    r" ?(?:[^\s\w]|_)+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BOS, EOS = "<|begin_of_text|>", "<|end_of_text|>"


def byte_to_unicode():
    """Returns GPT-2's printable stand-in for each byte. Printable bytes stand for themselves, and
    the others start at U+0100.
    """
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {b: chr(b) for b in printable}
    for offset, b in enumerate(b for b in range(256) if b not in table):
        table[b] = chr(256 + offset)
    return table


BYTE_CHARS = byte_to_unicode()


def to_symbols(word):
    return [BYTE_CHARS[b] for b in word.encode("utf-8")]


class Tokenizer:
    def __init__(self, merges):
        symbols = sorted(BYTE_CHARS.values()) + ["".join(pair) for pair in merges]
        self.merges = merges
        self.vocab = {symbol: i for i, symbol in enumerate(symbols)}
        self.bos, self.eos = len(symbols), len(symbols) + 1
        self.vocab_size = len(symbols) + 2
        self.rank = {pair: i for i, pair in enumerate(merges)}
        self.cache = {}

    def encode(self, text):
        ids = []
        for word in SPLIT.findall(text):
            if word not in self.cache:
                self.cache[word] = [self.vocab[s] for s in self._merge(to_symbols(word))]
            ids.extend(self.cache[word])
        return ids

    def _merge(self, symbols):
        while len(symbols) > 1:
            pairs = list(zip(symbols, symbols[1:]))
            best = min(pairs, key=lambda pair: self.rank.get(pair, len(self.rank)))
            if best not in self.rank:
                break
            symbols = _apply(symbols, best)
        return symbols

    def save(self, folder):
        special = [
            {"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True}
            for i, content in ((self.bos, BOS), (self.eos, EOS))
        ]
        template = {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": BOS, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"SpecialToken": {"id": BOS, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                     {"SpecialToken": {"id": BOS, "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {BOS: {"id": BOS, "ids": [self.bos], "tokens": [BOS]}},
        }
        split = {"type": "Split", "pattern": {"Regex": LLAMA3_PATTERN}, "behavior": "Isolated", "invert": False}
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        model = {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": self.vocab, "merges": [" ".join(pair) for pair in self.merges],
        }
        tokenizer = {
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
            "post_processor": template, "decoder": byte_level, "model": model,
        }
        config = {"tokenizer_class": "PreTrainedTokenizerFast",
                  "model_input_names": ["input_ids", "attention_mask"], "bos_token": BOS, "eos_token": EOS,
                  "clean_up_tokenization_spaces": False}
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False, indent=1) + "\n")
        (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def _apply(symbols, pair):
    merged, i = [], 0
    while i < len(symbols):
        if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == pair:
            merged.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged


def train(text, vocab_size):
    """Trains by greedy BPE: repeatedly merges the most frequent pair inside split words. Of equally
    frequent pairs it takes the smaller one.
    """
    counts = collections.Counter(SPLIT.findall(text))
    words = [(to_symbols(word), n) for word, n in counts.items()]
    pair_count, pair_words = collections.Counter(), collections.defaultdict(set)
    for index, (symbols, n) in enumerate(words):
        for pair in zip(symbols, symbols[1:]):
            pair_count[pair] += n
            pair_words[pair].add(index)
    heap = [(-n, pair) for pair, n in pair_count.items()]
    heapq.heapify(heap)

    merges = []
    while len(merges) < vocab_size - 256 - 2 and heap:
        negative, pair = heapq.heappop(heap)
        if pair_count[pair] != -negative or negative == 0:
            continue
        merges.append(pair)
        touched = set()
        for index in pair_words.pop(pair):
            symbols, n = words[index]
            for old in zip(symbols, symbols[1:]):
                pair_count[old] -= n
                touched.add(old)
            symbols = _apply(symbols, pair)
            words[index] = (symbols, n)
            for new in zip(symbols, symbols[1:]):
                pair_count[new] += n
                pair_words[new].add(index)
                touched.add(new)
        for changed in touched:
            heapq.heappush(heap, (-pair_count[changed], changed))
    return Tokenizer(merges)
