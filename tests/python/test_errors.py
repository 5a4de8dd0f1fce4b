"""Tests that wrong arguments raise an exception whose message names the argument."""

from pathlib import Path
from typing import Any

import pytest
from conftest import DEMO

import neuronmm
from neuronmm import LLM, Error, SamplingParams


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1},
        {"temperature": float("nan")},
        {"top_p": 1.5},
        {"min_p": -0.1},
        {"top_k": -2},
        {"repetition_penalty": 0},
        {"frequency_penalty": 3},
        {"presence_penalty": -3},
        {"seed": -1},
        {"seed": 2**64},
        {"max_tokens": 0},
        {"logprobs": -1},
        {"n": 0},
        {"stop": ""},
        {"stop": ["a", "\ud800"]},
        {"stop_token_ids": [-1]},
        {"logit_bias": {-1: 0.0}},
        {"logit_bias": {1: float("inf")}},
    ],
)
def test_invalid_sampling_values(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong)) + "|surrogates"):
        SamplingParams(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [{"temperature": "hot"}, {"top_k": 1.5}, {"seed": "a"}, {"stop": [3]}, {"max_tokens": True}, {"stop": 3}]
    + [{"stop_token_ids": ["a"]}, {"stop_token_ids": 3}, {"logit_bias": [1]}, {"logit_bias": {"a": 1.0}}],
)
def test_invalid_sampling_types(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(wrong))):
        SamplingParams(**wrong)


def test_invalid_model_folders(tmp_path: Path) -> None:
    assert issubclass(Error, RuntimeError)
    for path in (tmp_path / "absent", str(tmp_path), DEMO / "config.json"):
        with pytest.raises(Error, match=str(path)):
            LLM(path)
    with pytest.raises(Error, match="absent"):
        neuronmm.Tokenizer(tmp_path / "absent")
    with pytest.raises(TypeError):
        LLM(3)  # type: ignore[arg-type]
    for threads in (0, -1, 5000):
        with pytest.raises(ValueError, match="num_threads"):
            LLM(DEMO, num_threads=threads)


def test_invalid_prompts(llm: LLM) -> None:
    with pytest.raises(ValueError, match="vocabulary|from 0 to 2047, found 2048"):
        llm.generate([5, 2048])
    with pytest.raises(ValueError, match="none"):
        llm.generate([[]])
    with pytest.raises(UnicodeEncodeError):
        llm.generate("\ud800")
    with pytest.raises(Error, match="600 tokens.*512"):
        llm.generate([[5] * 600])
    with pytest.raises(Error, match="513"):
        llm.forward([5] * 513)
    with pytest.raises(Error, match="bias of token 5000"):
        llm.generate("a", SamplingParams(logit_bias={5000: 1.0}))
    for wrong in (3, None, [None], b"bytes", ["a", 3], [1.5]):
        with pytest.raises(TypeError):
            llm.generate(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="SamplingParams"):
        llm.generate("a", {"temperature": 1})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n: expected 1"):
        llm.stream("a", SamplingParams(n=2))
    with pytest.raises(Error, match="600 tokens"):
        list(llm.stream([5] * 600))


def test_empty_prompt_has_only_special_tokens(llm: LLM) -> None:
    ids = llm.tokenizer.encode("")
    if ids:
        assert llm.generate("")[0].prompt_token_ids == ids
    else:
        with pytest.raises(ValueError, match="empty"):
            llm.generate("")


def test_invalid_perplexity_arguments(llm: LLM, tmp_path: Path) -> None:
    with pytest.raises(Error, match="fewer than"):
        llm.perplexity("too short")
    with pytest.raises(Error, match="absent"):
        llm.perplexity(file=tmp_path / "absent")
    with pytest.raises(ValueError, match="context"):
        llm.perplexity("text", context=1)
    with pytest.raises(Error, match="max_position_embeddings"):
        llm.perplexity("text", context=4096)
    with pytest.raises(ValueError, match="either"):
        llm.perplexity()
    with pytest.raises(ValueError, match="either"):
        llm.perplexity("a", file="b")


@pytest.mark.parametrize(
    "wrong",
    [
        {"ratio": 0},
        {"ratio": 1},
        {"ratio": 2},
        {"method": "best"},
        {"method": "whitened"},
        {"allocate": "measured"},
        {"bits": 5},
        {"group": 16, "bits": 8},
        {"group": 24, "bits": 4},
        {"lm_head_bits": 8},
        {"lm_head_bits": 7, "bits": 4},
        {"block": 0},
        {"calibration_tokens": 0},
        {"calibration_tokens": 1000},
    ],
)
def test_invalid_compress_options(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong)) + "|" + str(next(iter(wrong.values())))):
        options: dict[str, Any] = {"ratio": 0.2, "method": "svd"}
        neuronmm.compress(DEMO, tmp_path / "out", **(options | wrong))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("removed", "instead"),
    [
        ({"error_aware": True}, "--error-aware was removed; use --form auto"),
        ({"align": "floor"}, "--align was removed; use --block"),
        ({"only": ["gate"]}, "--only was removed; use --allocate measured"),
        ({"gram": "a"}, "--gram was removed; use --statistics"),
        ({"save_gram": "a"}, "--save-gram was removed; use --statistics"),
        ({"save_statistics": "a"}, "--save-statistics was removed; use --statistics"),
        ({"weights": "int8"}, "--weights was removed; use --bits"),
        ({"seed": 3}, "--seed was removed; use --self-generated"),
    ],
)
def test_removed_keywords_are_refused_with_what_replaces_them(tmp_path: Path, removed: dict[str, Any], instead: str) -> None:
    with pytest.raises(TypeError, match=instead):
        neuronmm.compress(DEMO, tmp_path / "out", ratio=0.2, method="svd", **removed)
    misspelt: dict[str, Any] = {"ratoi": 0.2}
    with pytest.raises(TypeError, match="unexpected keyword argument 'ratoi'"):
        neuronmm.compress(DEMO, tmp_path / "out", **misspelt)


@pytest.mark.parametrize(
    ("removed", "instead"),
    [
        ({"method": "error-aware"}, "--method error-aware was removed; use --method two-sided"),
        ({"allocate": "sensitivity"}, "--allocate sensitivity was removed; use --form uv --allocate measured"),
    ],
)
def test_removed_values_are_refused_with_what_replaces_them(tmp_path: Path, removed: dict[str, Any], instead: str) -> None:
    with pytest.raises(ValueError, match=instead):
        neuronmm.compress(DEMO, tmp_path / "out", ratio=0.2, **removed)


def test_compress_of_missing_files(tmp_path: Path) -> None:
    with pytest.raises(Error, match="absent"):
        neuronmm.compress(tmp_path / "absent", tmp_path / "out", ratio=0.2, method="svd")
    with pytest.raises(Error, match="absent.txt"):
        neuronmm.compress(DEMO, tmp_path / "out", ratio=0.2, calibration=tmp_path / "absent.txt")
    assert list(tmp_path.iterdir()) == []
