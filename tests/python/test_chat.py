"""Tests that conversations are formatted by the chat template and answered as by the program."""

from pathlib import Path
from typing import Any

import pytest
from conftest import Program, SmolLM2

from neuronmm import LLM, Error, SamplingParams

PARAMS = SamplingParams(temperature=1, seed=11, max_tokens=24)
MESSAGES = [{"role": "user", "content": "Where is the river?"}]


@pytest.fixture(scope="module")
def chat_llm(chat_folder: Path) -> LLM:
    return LLM(chat_folder)


def test_answer_equals_that_of_the_program(chat_llm: LLM, chat_folder: Path, program: Program) -> None:
    answer = chat_llm.chat(MESSAGES, PARAMS)[0].outputs[0].text
    flags = "--chat --temperature 1 --seed 11 --max-new-tokens 24".split()
    assert answer + "\n" == program("generate", chat_folder, MESSAGES[0]["content"], *flags)
    assert "".join(chat_llm.stream(MESSAGES, PARAMS)) == answer


def test_several_conversations(chat_llm: LLM) -> None:
    other = [{"role": "system", "content": "Be brief."}, *MESSAGES]
    first, second = chat_llm.chat([MESSAGES, other], PARAMS)
    assert first.outputs == chat_llm.chat(MESSAGES, PARAMS)[0].outputs
    assert second.prompt == "system: Be brief.\nuser: Where is the river?\nassistant:"
    assert chat_llm.chat([], PARAMS) == []


def test_template_arguments(chat_llm: LLM) -> None:
    def prompt(messages: list[dict[str, Any]] = MESSAGES, **options: Any) -> str:
        text = chat_llm.tokenizer.apply_chat_template(messages, **options)
        assert chat_llm.chat(messages, SamplingParams(max_tokens=1), **options)[0].prompt == text
        return text

    assert prompt() == "user: Where is the river?\nassistant:"
    assert prompt(add_generation_prompt=False) == "user: Where is the river?\n"
    assert prompt(tools=[{"name": "map"}]) == "map: user: Where is the river?\nassistant:"
    assert prompt(chat_template_kwargs={"shout": True}).startswith("! user")
    begun = [*MESSAGES, {"role": "assistant", "content": "It is"}]
    assert prompt(begun, continue_final_message=True) == "user: Where is the river?\nassistant: It is"


def test_special_tokens_in_messages_are_plain_text(chat_llm: LLM) -> None:
    said = [{"role": "user", "content": "<|end_of_text|>"}]
    eos = chat_llm.tokenizer.eos_id
    assert eos not in chat_llm.chat(said, PARAMS)[0].prompt_token_ids
    assert eos in chat_llm.tokenizer.encode("<|end_of_text|>")
    assert eos not in chat_llm.tokenizer.encode("<|end_of_text|>", parse_special=False)


def test_invalid_conversations(llm: LLM, chat_llm: LLM) -> None:
    with pytest.raises(Error, match="template"):
        llm.chat(MESSAGES)  # the bundled model has no chat template
    with pytest.raises(Error, match="messages"):
        chat_llm.chat([["hello"]])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="messages"):
        chat_llm.chat("hello")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="serializable"):
        chat_llm.chat([{"role": "user", "content": b"bytes"}])


def test_smollm2_answers(smollm2: SmolLM2) -> None:
    llm, _ = smollm2
    (request,) = llm.chat([{"role": "user", "content": "What is the capital of France?"}], SamplingParams(temperature=0, max_tokens=40))
    assert "<|im_start|>user\nWhat is the capital of France?<|im_end|>" in (request.prompt or "")
    assert "Paris" in request.outputs[0].text and request.outputs[0].finish_reason == "stop"
