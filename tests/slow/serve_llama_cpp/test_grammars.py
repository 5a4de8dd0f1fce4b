"""Generates answers in many grammars and lets llguidance, which reads GBNF too, judge them."""

import os
from pathlib import Path

import httpx
import pytest
from llguidance import LLMatcher, LLTokenizer
from llguidance.gbnf_to_lark import gbnf_to_lark

GRAMMARS = {
    "numbers": 'root ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]+)?',
    "sums": 'root ::= (expression "=" [ \\t]* term "\\n")+\n'
    'expression ::= term ([-+*/] term)*\nterm ::= [a-z]+ | [0-9]{1,4} | "(" expression ")"',
    "json": 'root ::= object\nvalue ::= object | array | string | [0-9]{1,6} | "true" | "false" | "null"\n'
    'object ::= "{" ( string ":" value ("," string ":" value)* )? "}"\narray ::= "[" ( value ("," value)* )? "]"\n'
    'string ::= "\\"" ( [^"\\\\\\x7F\\x00-\\x1F] | "\\\\" (["\\\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\\""',
    "lists": 'root ::= item{1,4}\nitem ::= "- " [^\\r\\n\\u2028]+ "\\n"',
    "groups": 'root ::= (("a" | "b" ("c" | "d")?)+ ";"){2,5}',
    "scripts": "root ::= [ぁ-ゟァ-ヿ、-〾]{2,12}",
    "recursive": 'root ::= item ("," root)?\nitem ::= [0-9] | "[" root "]"',
}


def grammars():
    """Yields these grammars, and those of the folder GBNF_FOLDER, such as llama.cpp's grammars/."""
    yield from GRAMMARS.items()
    if folder := os.environ.get("GBNF_FOLDER"):
        for path in sorted(Path(folder).glob("*.gbnf")):
            yield path.stem, path.read_text()


@pytest.mark.parametrize(("name", "grammar"), list(grammars()))
def test_answers_are_texts_of_the_grammar(served, name, grammar):
    tokenizer = LLTokenizer("byte")
    compiled = LLMatcher.grammar_from_lark(gbnf_to_lark(grammar))
    for seed in range(12):
        body = {"prompt": "Once upon a time", "n_predict": 60, "seed": seed, "temperature": 1.5, "grammar": grammar}
        answer = httpx.post(served.url + "/completion", json=body).raise_for_status().json()
        matcher = LLMatcher(tokenizer, compiled)
        assert not matcher.is_error(), matcher.get_error()
        tokens = tokenizer.tokenize_bytes(answer["content"].encode())
        assert matcher.try_consume_tokens(tokens) == len(tokens), (name, answer["content"])
        assert answer["stop_type"] == "limit" or matcher.is_accepting(), (name, answer["content"])
