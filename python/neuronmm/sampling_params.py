"""The settings that choose the next token and end a text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .arguments import brief, number, whole_number

_MOST_TOKENS = 1 << 30


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """Settings for generating text.

    A setting of None is taken from the model's generation_config.json, as `neuronmm generate` does.
    Without an entry there, the most likely token is chosen and at most 128 tokens are generated.
    """

    n: int = 1
    """The number of texts per prompt."""
    temperature: float | None = None
    """0: always choose the most likely token."""
    top_p: float | None = None
    """1: off."""
    top_k: int | None = None
    """0 or -1: off."""
    min_p: float | None = None
    """0: off."""
    repetition_penalty: float | None = None
    """1: off."""
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    seed: int | None = None
    """None: another seed each time. Text i of a call, counted over all its prompts, is drawn with
    seed + i.
    """
    max_tokens: int | None = None
    stop: str | Sequence[str] = ()
    """Generation ends before the first of these texts."""
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = False
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """Numbers that are added to the logits of these token ids."""
    logprobs: int | None = None
    """Return the log-probabilities of every token and of this many of the most likely tokens."""

    def __post_init__(self) -> None:
        self._keep("n", whole_number("n", self.n, 1, _MOST_TOKENS))
        self._check_number("temperature", 0, 100)
        self._check_number("top_p", 0, 1)
        self._check_number("min_p", 0, 1)
        self._check_number("repetition_penalty", 0.01, 100)
        self._check_number("frequency_penalty", -2, 2)
        self._check_number("presence_penalty", -2, 2)
        self._check_whole("top_k", -1, _MOST_TOKENS)
        if self.top_k == -1:
            self._keep("top_k", 0)
        self._check_whole("seed", 0, 2**64 - 1)
        self._check_whole("max_tokens", 1, _MOST_TOKENS)
        self._check_whole("logprobs", 0, 1000)
        self._keep("ignore_eos", bool(self.ignore_eos))
        self._keep("stop", [self.stop] if isinstance(self.stop, str) else _list_of("stop", self.stop))
        for text in self.stop:
            _check_stop(text)
        ids = [whole_number("stop_token_ids", id, 0, 2**31 - 1) for id in _list_of("stop_token_ids", self.stop_token_ids)]
        self._keep("stop_token_ids", ids)
        if not isinstance(self.logit_bias, Mapping):
            raise TypeError(f"logit_bias: expected a dict of ids and numbers, found {brief(self.logit_bias)}")
        biases = {
            whole_number("logit_bias", id, 0, 2**31 - 1): number(f"logit_bias of token {id}", bias, -1e30, 1e30)
            for id, bias in self.logit_bias.items()
        }
        self._keep("logit_bias", biases)

    def _keep(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # the class is frozen except for its own checks

    def _check_number(self, name: str, lowest: float, highest: float) -> None:
        value = getattr(self, name)
        if value is not None:
            self._keep(name, number(name, value, lowest, highest))

    def _check_whole(self, name: str, lowest: int, highest: int) -> None:
        value = getattr(self, name)
        if value is not None:
            self._keep(name, whole_number(name, value, lowest, highest))


def _list_of(name: str, values: Iterable[Any]) -> list[Any]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"{name}: expected a list, found {brief(values)}")
    return list(values)


def _check_stop(text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(f"stop: expected a string or strings, found {brief(text)}")
    if not text:
        raise ValueError("stop: expected texts that are not empty")
    text.encode()  # raises UnicodeEncodeError for a lone surrogate, which no text contains
