"""Tests of a model's logits, perplexity and tokenizer."""

import gc
import json
from pathlib import Path

import numpy as np
import pytest
from conftest import DEMO, Program

import neuronmm
from neuronmm import LLM, SamplingParams

TEXT = DEMO / "evaluation.txt"


def test_perplexity_equals_that_of_the_program(llm: LLM, program: Program) -> None:
    for context in (None, 64):
        flags = [] if context is None else ["--context", context]
        report = llm.perplexity(file=TEXT, context=context)
        printed = program("perplexity", DEMO, TEXT, *flags)
        assert f"{report.perplexity:.4f}" == printed.split()[1]
        assert llm.perplexity(TEXT.read_text(), context=context).perplexity == report.perplexity
    assert (report.context, report.scored_tokens) == (64, report.chunks * 63)


def test_perplexity_follows_from_the_logits(llm: LLM) -> None:
    tokens = llm.tokenizer.encode(TEXT.read_text()[:4000])
    report = llm.perplexity(TEXT.read_text()[:4000], context=100)
    losses = []
    for first in range(0, len(tokens) - 99, 100):
        chunk = tokens[first : first + 100]
        logits = llm.forward(chunk).astype(np.float64)
        total = np.log(np.exp(logits).sum(axis=1))
        losses += [total[i] - logits[i, chunk[i + 1]] for i in range(99)]
    assert report.scored_tokens == len(losses)
    assert report.perplexity == pytest.approx(np.exp(np.mean(losses)), rel=1e-5)


def test_greedy_token_has_the_largest_logit(llm: LLM) -> None:
    ids = llm.tokenizer.encode("The river")
    for _ in range(4):
        (output,) = llm.generate([ids], SamplingParams(max_tokens=1))
        ids.append(int(llm.forward(ids)[-1].argmax()))
        assert output.outputs[0].token_ids == ids[-1:]


def test_logits_are_an_independent_array() -> None:
    llm = LLM(DEMO)
    ids = np.asarray(llm.tokenizer.encode("The river is"))
    logits = llm.forward(ids)
    copy = logits.copy()
    assert logits.dtype == np.float32 and logits.shape == (len(ids), llm.tokenizer.vocab_size)
    llm.forward(ids[::-1])
    del llm
    gc.collect()
    assert np.array_equal(logits, copy)
    logits[0, 0] = 7  # the array can be written
    assert np.shares_memory(np.from_dlpack(logits), logits)
    # Logits of the first tokens do not depend on later tokens. The array stays valid after its
    # model is gone.
    assert np.allclose(LLM(DEMO, num_threads=1).forward(ids[:2]), copy[:2], atol=1e-4)


def test_tokenizer(llm: LLM, program: Program) -> None:
    tokenizer = neuronmm.Tokenizer(str(DEMO))
    text = "Grüße, 世界 🙂 <|end_of_text|>"
    ids = tokenizer.encode(text)
    assert ids == llm.tokenizer.encode(text)
    assert tokenizer.decode(ids, skip_special_tokens=True) == "Grüße, 世界 🙂 "
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.vocab_size) == (2046, 2047, 2048)
    half = tokenizer.encode("🙂", add_special_tokens=False)[:1]
    assert tokenizer.decode(half) == "\N{REPLACEMENT CHARACTER}"


def test_perplexity_against_a_reference(llm: LLM, tmp_path: Path, program: Program) -> None:
    small = tmp_path / "small"
    neuronmm.compress(DEMO, small, ratio=0.3, method="svd")
    model = LLM(small)
    report = model.perplexity(file=TEXT, context=256, reference=llm)
    assert report.perplexity == model.perplexity(file=TEXT, context=256).perplexity
    found = report.divergence
    assert found is not None
    assert found.reference_perplexity == llm.perplexity(file=TEXT, context=256).perplexity
    printed = json.loads(program("perplexity", small, TEXT, "--context", 256, "--reference", DEMO, "--json", "-"))
    flat = json.dumps(printed)
    for name in ("kl", "top1_agreement", "nll_difference", "perplexity_ratio"):
        assert f'"{name}": {json.dumps(getattr(found, name))}' in flat
    assert found.kl_interval[0] < found.kl < found.kl_interval[1]
    assert llm.perplexity(file=TEXT, context=256).divergence is None
    same = llm.perplexity(file=TEXT, context=256, reference=llm).divergence
    assert same is not None and same.kl == 0 and same.top1_agreement == 1
    with pytest.raises(TypeError, match="reference: expected an LLM"):
        llm.perplexity("a", reference=str(DEMO))  # type: ignore[arg-type]
