"""Makes random tokenizer.json files around small trained BPE models.

The files contain all components that are supported.
"""

import copy
import json

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

MARK = "▁"
BYTE_TOKENS = [f"<0x{b:02X}>" for b in range(256)]
PATTERNS = [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s+",
            r"\s?[A-Za-zµÀ-ÖØ-öø-ƺ]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", r"[一-龥ࠀ-一가-퟿]+", r"[\r\n]", r"\p{N}",
            r" ?[^(\s|[.,!?…。，、।۔،])]+", r"\w+|[^\w\s]+", r"\W", r"\d{1,3}+", r"[0-9][0-9][0-9]", r"x*", r"(?=[A-Z])", r"[aeiou]{,2}",
            r"\p{L}++|.", r"^.", r"\S+\s?", "▁+"]
CAN_BE_EMPTY = [r"x*", r"(?=[A-Z])", r"[aeiou]{,2}"]
LITERALS = [" ", "▁", "a", "in", "e", "--", "é", "\n", ".", "Ġ"]
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def train(corpus, normalizer=None, pre_tokenizer=None, **options):
    tokenizer = Tokenizer(models.BPE(**{k: v for k, v in options.items() if k in ("continuing_subword_prefix", "end_of_word_suffix")}))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=options["size"], show_progress=False, special_tokens=options.get("special", []),
                                  initial_alphabet=options.get("alphabet", []),
                                  **{k: v for k, v in options.items() if k in ("continuing_subword_prefix", "end_of_word_suffix")})
    tokenizer.train_from_iterator(corpus, trainer)
    return json.loads(tokenizer.to_str())["model"]


def base_models(corpus, scale=1):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    spell = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    mark = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<unk>", "<s>", "</s>"]
    words = pre_tokenizers.Metaspace(prepend_scheme="always")
    chunks = pre_tokenizers.FixedLength(40) if hasattr(pre_tokenizers, "FixedLength") else words
    return [
        train(corpus, None, byte_level, size=int(600 * scale), alphabet=alphabet),
        train(corpus, None, byte_level, size=int(500 * scale)),  # lacks some bytes
        train(corpus, None, pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERNS[0]), "isolated"), spell]), size=int(800 * scale), alphabet=alphabet),
        train(corpus, None, words, size=int(900 * scale), special=special + BYTE_TOKENS),
        # Merges of this model extend across spaces.
        train(corpus, mark, chunks, size=int(900 * scale), special=special + BYTE_TOKENS),
        train(corpus, None, words, size=int(500 * scale), special=special),
        train(corpus, None, pre_tokenizers.Whitespace(), size=int(500 * scale), special=special),
        train(corpus, None, pre_tokenizers.Whitespace(), size=int(600 * scale), special=special, end_of_word_suffix="</w>"),
        train(corpus, None, pre_tokenizers.BertPreTokenizer(), size=int(600 * scale), special=special, continuing_subword_prefix="##"),
    ]


def is_ambiguous(definition):
    """Returns whether the result of a definition is uncertain.

    The library leaves some cases to chance and decides others by offsets that neuronmm does not
    track.
    """
    normalizer = Tokenizer.from_str(json.dumps({**definition, "added_tokens": [], "post_processor": None})).normalizer
    searched = [normalizer.normalize_str(t["content"]) if normalizer else t["content"] for t in definition["added_tokens"] if t["normalized"]]
    if "" in searched or len(set(searched)) < len(searched):
        return True
    # The scheme "first" asks whether a piece begins where the original text begins. After a
    # beginning that was replaced or stripped, the answer depends on offsets.
    rewrites = any(step in json.dumps(definition["normalizer"]) for step in ('"Regex"', '"Strip"'))
    return '"first"' in json.dumps(definition["pre_tokenizer"]) and rewrites


class Pipelines:
    def __init__(self, rng, corpus, scale=1):
        self.rng = rng
        self.models = base_models(corpus, scale)

    def flip(self, p=0.5):
        return self.rng.random() < p

    def pattern(self, patterns=PATTERNS):
        return {"Regex": self.rng.choice(patterns)} if self.flip() else {"String": self.rng.choice(LITERALS)}

    def metaspace(self):
        value = {"type": "Metaspace", "replacement": self.rng.choice([MARK] * 6 + ["_"]),
                 "prepend_scheme": self.rng.choice(["always", "first", "never"]), "split": self.flip()}
        if self.flip(0.2):
            value["str_rep"] = value["replacement"]
            value["add_prefix_space"] = value["prepend_scheme"] != "never"
        return value

    def byte_level(self):
        return {"type": "ByteLevel", "add_prefix_space": self.flip(0.3), "trim_offsets": True, "use_regex": self.flip(0.6)}

    def replace(self):
        # The library loses track of its offsets and doubles characters if it replaces an empty
        # match at the start of a text.
        return {"type": "Replace", "pattern": self.pattern([p for p in PATTERNS if p not in CAN_BE_EMPTY]), "content": self.rng.choice([MARK, " ", "", "x", "é", "ab"])}

    def sequence(self, value, members):
        if len(value) == 1 and self.flip(0.7):
            return value[0]
        if len(value) > 2 and self.flip(0.2):  # nested
            return {"type": "Sequence", members: [value[0], {"type": "Sequence", members: value[1:]}]}
        return {"type": "Sequence", members: value}

    def normalizer(self):
        if self.flip(0.3):
            return None
        if self.flip(0.3):
            return {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": MARK},
                                                         {"type": "Replace", "pattern": {"String": " "}, "content": MARK}]}
        kinds = [lambda: {"type": self.rng.choice(["NFC", "NFD", "NFKC", "NFKD"])}, lambda: {"type": "Lowercase"},
                 lambda: {"type": "StripAccents"}, lambda: {"type": "Strip", "strip_left": self.flip(), "strip_right": self.flip()},
                 self.replace, lambda: {"type": "Prepend", "prepend": self.rng.choice([MARK, " ", "x▁"])},
                 lambda: {"type": "ByteLevel"}]
        weights = [4, 2, 1, 2, 3, 2, 0.5]
        return self.sequence([self.rng.choices(kinds, weights)[0]() for _ in range(self.rng.choice([1, 1, 2, 3]))], "normalizers")

    def pre_tokenizer(self):
        if self.flip(0.15):
            return None
        kinds = [self.byte_level, self.metaspace, lambda: {"type": "Punctuation", "behavior": self.rng.choice(BEHAVIORS)},
                 lambda: {"type": "Digits", "individual_digits": self.flip()}, lambda: {"type": "Whitespace"},
                 lambda: {"type": "WhitespaceSplit"}, lambda: {"type": "BertPreTokenizer"},
                 lambda: {"type": "CharDelimiterSplit", "delimiter": self.rng.choice(" e.▁")},
                 lambda: {"type": "FixedLength", "length": self.rng.randint(1, 9)},
                 lambda: {"type": "Split", "pattern": self.pattern(), "behavior": self.rng.choice(BEHAVIORS), "invert": self.flip(0.3)}]
        weights = [4, 4, 2, 2, 1, 1, 0.5, 0.5, 0.5, 6]
        return self.sequence([self.rng.choices(kinds, weights)[0]() for _ in range(self.rng.choice([1, 1, 2, 3, 4]))], "pretokenizers")

    def decoder(self):
        if self.flip(0.1):
            return None
        if self.flip(0.3):
            return {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
        if self.flip(0.3):
            steps = [{"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
            if self.flip():
                steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
            return {"type": "Sequence", "decoders": steps}
        kinds = [lambda: {"type": "ByteFallback"}, lambda: {"type": "Fuse"}, self.metaspace, self.replace,
                 lambda: {"type": "Strip", "content": self.rng.choice([" ", MARK, "e"]), "start": self.rng.randint(0, 2), "stop": 0},
                 lambda: {"type": "BPEDecoder", "suffix": "</w>"}, self.byte_level]
        return self.sequence([self.rng.choice(kinds)() for _ in range(self.rng.choice([1, 1, 2, 3, 4]))], "decoders")

    def added_tokens(self, model):
        contents = self.rng.sample(["<s>", "</s>", "<unk>", "<|end|>", "[TOK]", "hello", "the", " in", "▁a", "é", "E", "lo ", "字", "a b"],
                                   self.rng.choice([0, 1, 3, 5]))
        tokens = []
        next_id = len(model["vocab"])
        for content in contents:
            if content in model["vocab"]:
                token_id = model["vocab"][content]
            else:
                token_id, next_id = next_id, next_id + 1
            tokens.append({"id": token_id, "content": content, "single_word": self.flip(0.2), "lstrip": self.flip(0.25),
                           "rstrip": self.flip(0.25), "normalized": self.flip(0.4), "special": self.flip()})
        return tokens

    def post_processor(self, tokens):
        if not tokens or self.flip():
            return None
        token = self.rng.choice(tokens)
        template = {"type": "TemplateProcessing",
                    "single": [{"SpecialToken": {"id": "S", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}] +
                    ([{"SpecialToken": {"id": "S", "type_id": 0}}] if self.flip() else []),
                    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                    "special_tokens": {"S": {"id": "S", "ids": [token["id"]] * self.rng.randint(1, 2), "tokens": [token["content"]] * 2}}}
        template["special_tokens"]["S"]["tokens"] = template["special_tokens"]["S"]["tokens"][:len(template["special_tokens"]["S"]["ids"])]
        kinds = [template, {"type": "RobertaProcessing", "sep": [token["content"], token["id"]], "cls": [token["content"], token["id"]],
                            "trim_offsets": True, "add_prefix_space": True},
                 {"type": "BertProcessing", "sep": [token["content"], token["id"]], "cls": [token["content"], token["id"]]},
                 {"type": "Sequence", "processors": [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}, template]}]
        return copy.deepcopy(self.rng.choice(kinds))

    def model(self):
        model = copy.deepcopy(self.rng.choice(self.models))
        vocab, merges = model["vocab"], model["merges"]
        # Some learned tokens are lost, together with everything that is merged from them.
        if self.flip(0.3):
            lost = set(self.rng.sample(sorted(vocab), 10)) - set(BYTE_TOKENS[:250])
            merges = [m for m in merges if not lost & {m[0], m[1]} and self.merged(m, model) not in lost]
            kept = [t for t in sorted(vocab, key=vocab.get) if t not in lost]
            vocab = {t: i for i, t in enumerate(kept)}
        # The order of merges becomes one that no training gives.
        if self.flip(0.2):
            self.rng.shuffle(merges)
        if self.flip(0.3):
            merges = [" ".join(m) for m in merges] if not any(" " in t for m in merges for t in m) else merges
        model.update(vocab=vocab, merges=merges, byte_fallback=self.flip(), fuse_unk=self.flip(), ignore_merges=self.flip(0.3),
                     unk_token=self.rng.choice([t for t in ("<unk>", "e") if t in vocab] + [None]))
        return model

    def merged(self, merge, model):
        return merge[0] + merge[1][len(model.get("continuing_subword_prefix") or ""):]

    def next(self):
        model = self.model()
        tokens = self.added_tokens(model)
        return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": self.normalizer(),
                "pre_tokenizer": self.pre_tokenizer(), "post_processor": self.post_processor(tokens), "decoder": self.decoder(), "model": model}
