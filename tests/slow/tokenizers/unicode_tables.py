"""Finds the characters that the Unicode tables of neuronmm and of the tokenizers library treat
differently.

Their versions of Unicode differ.
"""

import json
import pathlib
import tempfile

from tokenizers import Tokenizer

import texts

STEPS = [{"normalizer": {"type": kind}} for kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents")] + [
    {"pre_tokenizer": {"type": "Punctuation", "behavior": "Isolated"}}, {"pre_tokenizer": {"type": "Whitespace"}},
    {"pre_tokenizer": {"type": "Digits", "individual_digits": False}}] + [
    {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}}
    for regex in (r"\p{L}", r"\p{M}", r"\p{N}", r"\w", r"\s", r"\d", r"[\p{Lu}\p{Lt}\p{Lm}]", r"(?i:[a-z])")]
# A mark before or after the character reveals a different combining class.
FRAMES = ["a{}b", "a\u0301{}\u0323", "\u1100{}\u11a8"]


def differing(ours):
    """Returns the code points that the two sides treat differently.

    Every step that looks at single characters is tested alone, with one character at a time.
    """
    path = pathlib.Path(tempfile.mkdtemp()) / "tokenizer.json"
    vocab = {f"<0x{b:02X}>": b for b in range(256)}
    found = set()
    for step in STEPS:
        # The model adds the suffix "y" to the last character of a word, so that the ids show where
        # words end.
        definition = {"version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None, "decoder": None,
                      "pre_tokenizer": None, **step,
                      "model": {"type": "BPE", "vocab": {**vocab, "x": 256, "y": 257, "xy": 258}, "merges": [["x", "y"]], "byte_fallback": True,
                                "end_of_word_suffix": "y"}}
        path.write_text(json.dumps(definition))
        error = ours.load(path)
        assert not error, error
        tokenizer = Tokenizer.from_file(str(path))
        for frame in FRAMES if "normalizer" in step else FRAMES[:1]:
            sample = [frame.format(chr(c)) for c in texts.SPECIAL]
            theirs = [encoding.ids for encoding in tokenizer.encode_batch(sample)]
            ids = ours.run(sample)[0]
            found |= {c for c, a, b in zip(texts.SPECIAL, ids, theirs) if a != b}
    return found
