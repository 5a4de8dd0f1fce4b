"""What becomes of a prompt, by the names of vLLM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from ._native import Completion, Token


@dataclass(frozen=True)
class Logprob:
    logprob: float
    """The natural logarithm of the model's own probability, before temperature, penalties and filters."""
    decoded_token: str


@dataclass(frozen=True)
class CompletionOutput:
    index: int
    text: str
    """Without special tokens, up to the stop string."""
    token_ids: list[int]
    """Without the token that ended the text."""
    logprobs: list[dict[int, Logprob]] | None
    """By token id, for each of token_ids: that token first, then the most likely ones."""
    finish_reason: Literal["stop", "length"]


@dataclass(frozen=True)
class RequestOutput:
    prompt: str | None
    """None where the prompt was given as token ids."""
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]


def _logprobs_of(tokens: list[Token]) -> dict[int, Logprob]:
    return {token.id: Logprob(token.logprob, token.text) for token in tokens}


def completion_output(index: int, completion: Completion, with_logprobs: bool) -> CompletionOutput:
    return CompletionOutput(
        index=index,
        text=completion.text,
        token_ids=completion.token_ids,
        logprobs=[_logprobs_of(tokens) for tokens in completion.logprobs] if with_logprobs else None,
        finish_reason=cast(Literal["stop", "length"], completion.finish_reason),
    )
