"""Tests that generated texts are those of `neuronmm generate`, for any number of prompts per call.
"""

from pathlib import Path

import pytest
from conftest import DEMO, Program, SmolLM2

from neuronmm import LLM, SamplingParams

PROMPT = "The history of the city"
OTHERS = ["In the year 1900", "A river", PROMPT]


def text_of(llm: LLM, prompt: str, params: SamplingParams) -> str:
    return llm.generate(prompt, params)[0].outputs[0].text


@pytest.mark.parametrize(
    ("params", "flags"),
    [
        (SamplingParams(max_tokens=30), ["--max-new-tokens", 30]),
        (SamplingParams(temperature=1.1, seed=7, max_tokens=40), "--temperature 1.1 --seed 7 --max-new-tokens 40".split()),
        (
            SamplingParams(temperature=0.9, top_k=50, top_p=0.8, min_p=0.01, repetition_penalty=1.2, seed=2**63),
            "--temperature 0.9 --top-k 50 --top-p 0.8 --min-p 0.01 --repetition-penalty 1.2 --seed".split() + [2**63],
        ),
        (
            SamplingParams(frequency_penalty=0.5, presence_penalty=-0.25, logit_bias={300: 4.0, 301: -2.5}),
            "--frequency-penalty 0.5 --presence-penalty -0.25 --logit-bias 300=4 --logit-bias 301=-2.5".split(),
        ),
        (SamplingParams(stop=[" of", " the"], max_tokens=60), ["--stop", " of", "--stop", " the", "--max-new-tokens", 60]),
        (SamplingParams(ignore_eos=True, temperature=3, seed=1), "--ignore-eos --temperature 3 --seed 1".split()),
    ],
)
def test_text_equals_that_of_the_program(llm: LLM, program: Program, params: SamplingParams, flags: list[object]) -> None:
    text = text_of(llm, PROMPT, params)
    assert text + "\n" == program("generate", DEMO, "--prompt", PROMPT, *flags)
    assert "".join(llm.stream(PROMPT, params)) == text


def test_generation_config_of_the_folder(sampling_folder: Path, program: Program) -> None:
    llm = LLM(sampling_folder)
    output = llm.generate(PROMPT, SamplingParams(seed=5))[0].outputs[0]
    assert output.text + "\n" == program("generate", sampling_folder, PROMPT, "--seed", 5)
    assert len(output.token_ids) == 24
    greedy = text_of(llm, PROMPT, SamplingParams(temperature=0))
    assert greedy + "\n" == program("generate", sampling_folder, PROMPT, "--greedy")
    # Without a seed, each call draws another text.
    assert llm.generate(PROMPT)[0].outputs[0].text != llm.generate(PROMPT)[0].outputs[0].text


def test_batched_prompts_give_the_texts_of_single_ones(llm: LLM) -> None:
    params = SamplingParams(temperature=1, seed=3, max_tokens=20)
    outputs = llm.generate(OTHERS * 12, params)  # more prompts than run at once
    for i, output in enumerate(outputs):
        alone = SamplingParams(temperature=1, seed=3 + i, max_tokens=20)
        assert output.prompt == OTHERS[i % 3]
        assert output.outputs[0].text == text_of(llm, OTHERS[i % 3], alone)


def test_several_outputs_per_prompt(llm: LLM) -> None:
    two = llm.generate(OTHERS, SamplingParams(n=2, temperature=1, seed=3, max_tokens=20))
    one = llm.generate([p for p in OTHERS for _ in range(2)], SamplingParams(temperature=1, seed=3, max_tokens=20))
    assert [o.text for request in two for o in request.outputs] == [request.outputs[0].text for request in one]
    assert [[o.index for o in request.outputs] for request in two] == [[0, 1]] * 3


def test_token_ids_as_a_prompt(llm: LLM) -> None:
    params = SamplingParams(max_tokens=12)
    ids = llm.tokenizer.encode(PROMPT)
    expected = llm.generate(PROMPT, params)[0]
    assert expected.prompt_token_ids == ids
    for prompt in (ids, [ids]):
        (output,) = llm.generate(prompt, params)
        assert output.prompt is None and output.outputs == expected.outputs
    assert llm.generate([]) == []


def test_finish_reasons(llm: LLM) -> None:
    cut = llm.generate(PROMPT, SamplingParams(max_tokens=5))[0].outputs[0]
    assert cut.finish_reason == "length" and len(cut.token_ids) == 5 and cut.logprobs is None
    by_id = llm.generate(PROMPT, SamplingParams(max_tokens=5, stop_token_ids=[cut.token_ids[2]]))[0].outputs[0]
    assert by_id.finish_reason == "stop" and by_id.token_ids == cut.token_ids[:2]
    by_text = llm.generate(PROMPT, SamplingParams(max_tokens=5, stop=cut.text[3:6]))[0].outputs[0]
    assert by_text.finish_reason == "stop" and by_text.text == cut.text[:3]


def test_logprobs(llm: LLM) -> None:
    import numpy as np

    (request,) = llm.generate(PROMPT, SamplingParams(max_tokens=6, logprobs=3, temperature=2, seed=4))
    output = request.outputs[0]
    assert output.logprobs is not None and len(output.logprobs) == 6
    logits = llm.forward(request.prompt_token_ids + output.token_ids).astype(np.float64)
    expected = logits - np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1, keepdims=True)) - logits.max(1, keepdims=True)
    first = len(request.prompt_token_ids) - 1
    for i, (id, logprobs) in enumerate(zip(output.token_ids, output.logprobs, strict=True)):
        row = expected[first + i]
        assert next(iter(logprobs)) == id
        assert set(np.argsort(-row)[:3]) | {id} == set(logprobs)
        for other, logprob in logprobs.items():
            # The KV cache of a bf16 model holds bf16 values during generation and fp32 values in
            # forward().
            assert logprob.logprob == pytest.approx(row[other], abs=0.05)
            assert logprob.decoded_token == llm.tokenizer.decode([other])


def test_number_of_threads_does_not_change_the_text(llm: LLM) -> None:
    params = SamplingParams(temperature=1, seed=9, max_tokens=30)
    assert text_of(LLM(DEMO, num_threads=1), PROMPT, params) == text_of(llm, PROMPT, params)


def test_smollm2_equals_transformers(smollm2: SmolLM2) -> None:
    llm, cases = smollm2
    outputs = llm.generate([case["text"] for case in cases], SamplingParams(temperature=0, max_tokens=48))
    for case, output in zip(cases, outputs, strict=True):
        assert output.prompt_token_ids == case["ids"], case["name"]
        assert output.outputs[0].token_ids == case["greedy_ids"], case["name"]
