"""Makes random texts that tokenizers find hard."""

import random
import unicodedata

# Characters and words that have a meaning for a step of some tokenizer.
SIGNS = list(" \n\t\r▁Ġ.,!?'\"-_/<>|[](){}0123456789aeiouAEIOUzZ") + [
    "  ", "   ", "\r\n", "\u00a0", "\u3000", "\u200b", "\u200d", "\u0301", "\u0323", "\u0308", "é", "É", "ß", "İ",
    "ſ", "ﬁ", "½", "²", "Ⅷ", "٣", "漢", "字", "か", "カ", "한", "ᄒ", "ᅡ", "ᆫ", "👍", "👩‍👩‍👧", "🇩🇪", "\ufe0f", "ا", "ל",
    "ц", "\u2028", "\x00", "\x7f", "\x1c", "\u0085", "\u180e", "\ufffd", "\ue000", "\U00010300", "\U0010fffd",
    "'s", "'LL", "'re", "<0x0A>", "<s>", "</s>", "<unk>", "<|end|>", "[TOK]", "hello", "world", "the", "in"]


def assigned(code_point):
    """Returns whether a code point is a character that Unicode 14 assigns.

    Python 3.11 has the tables of Unicode 14, which the libraries of both sides know.
    """
    return unicodedata.category(chr(code_point)) not in ("Cn", "Cs")


ASSIGNED = [c for c in range(0x110000) if assigned(c)]
# Characters that a step may treat in a special way. Tens of thousands of ideographs, syllables and
# private characters are not among them.
SPECIAL = [c for c in ASSIGNED if unicodedata.category(chr(c)) not in ("Lo", "Co", "So") or c < 0x3400 or unicodedata.decomposition(chr(c))]
PLANES = [[c for c in ASSIGNED if c < 0x250], [c for c in ASSIGNED if 0x250 <= c < 0x3000],
          [c for c in ASSIGNED if 0x3000 <= c < 0x10000], [c for c in ASSIGNED if c >= 0x10000 and c < 0xF0000]]


def leave_out(code_points):
    for plane in PLANES:
        plane[:] = [c for c in plane if c not in code_points]


def random_text(rng, words, all_characters=None):
    """Returns a text of `words` pieces.

    A piece is a sign, a repeated sign, some letters, or a character from all planes (or from
    `all_characters`).
    """
    out = []
    for _ in range(words):
        kind = rng.random()
        if kind < 0.5:
            out.append(rng.choice(SIGNS))
        elif kind < 0.7:
            out.append("".join(rng.choice("abcdeinorst ") for _ in range(rng.randint(1, 6))))
        elif kind < 0.9:
            out.append(rng.choice(all_characters) if all_characters else chr(rng.choice(rng.choice(PLANES))))
        else:
            out.append(rng.choice(SIGNS) * rng.randint(1, 5))
    return "".join(out)
