"""The results of a prompt, under the names that vLLM uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from ._native import Completion, Token


@dataclass(frozen=True)
class Logprob:
    """The probability of one token."""
    logprob: float
    """The natural logarithm of the model's own probability, before temperature, penalties and
    filters.
    """
    decoded_token: str


@dataclass(frozen=True)
class CompletionOutput:
    """A text that a prompt was completed with."""
    index: int
    text: str
    """The text without special tokens, up to the stop string."""
    token_ids: list[int]
    """The tokens without the one that ended the text."""
    logprobs: list[dict[int, Logprob]] | None
    """For each of token_ids the log-probabilities by token id: first of that token, then of the
    most likely ones.
    """
    finish_reason: Literal["stop", "length"]


@dataclass(frozen=True)
class RequestOutput:
    """A prompt and its completions."""
    prompt: str | None
    """None if the prompt was given as token ids."""
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
