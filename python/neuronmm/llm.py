"""A model in memory that generates text and measures perplexity."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from . import _native
from .arguments import brief, thread_count, whole_number
from .outputs import RequestOutput, completion_output
from .sampling_params import SamplingParams
from .tokenizer import Message, Tokenizer

TokenIds = Sequence[int] | npt.NDArray[np.integer[Any]]
Prompt = str | TokenIds


Interval = tuple[float, float]


@dataclass(frozen=True)
class Divergence:
    """The distance of a model from a reference on the same tokens.

    Intervals are 95 % intervals with the chunks as samples. They are nan with one chunk.
    """

    reference_perplexity: float
    kl: float
    """The mean KL(reference || model), in nats per token."""
    kl_interval: Interval
    top1_agreement: float
    """The share of tokens where both models have the same most likely token."""
    top1_agreement_interval: Interval
    nll_difference: float
    """The model's loss minus the reference's loss, as a mean over the tokens, in nats."""
    nll_difference_interval: Interval
    perplexity_ratio: float


@dataclass(frozen=True)
class PerplexityReport:
    """The perplexity of a text, and how it was measured."""
    perplexity: float
    standard_error: float
    """The standard error from the spread of the chunks' losses. nan with one chunk."""
    context: int
    tokens: int
    """The number of tokens of the whole text, including the tail that fills no chunk and is left
    out.
    """
    chunks: int
    scored_tokens: int
    seconds: float
    divergence: Divergence | None
    """The divergence from the reference. None if no reference was given."""


class LLM:
    """A model on the CPU: a Hugging Face folder (dense, compressed or rounded to few bits), a GGUF
    file, or a name in the Hugging Face cache.

    Several threads may call one object. Their calls run one after the other, and each call uses all
    of num_threads (None: as many as the cores and the CPU quota allow).
    """

    def __init__(self, path: str | os.PathLike[str], *, num_threads: int | None = None) -> None:
        self._native = _native.LanguageModel(os.fspath(path), thread_count(num_threads))
        self.tokenizer = Tokenizer._of(self._native.tokenizer)

    def generate(
        self, prompts: Prompt | Sequence[Prompt], sampling_params: SamplingParams | None = None
    ) -> list[RequestOutput]:
        """Completes one prompt, or several prompts, which are decoded together. A prompt is a text
        or token ids.
        """
        return self._complete([self._encoded(prompt) for prompt in _list_of(prompts)], sampling_params, chat=False)

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        sampling_params: SamplingParams | None = None,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool | None = None,
        continue_final_message: bool | str = False,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> list[RequestOutput]:
        """Answers one conversation or several, using the model's chat template (see
        Tokenizer.apply_chat_template).
        """
        prompts = [
            self.tokenizer._chat_prompt(
                conversation, tools, documents, add_generation_prompt, continue_final_message, chat_template_kwargs
            )
            for conversation in _conversations_of(messages)
        ]
        return self._complete(prompts, sampling_params, chat=True)

    def stream(
        self, prompt: Prompt | Sequence[Message], sampling_params: SamplingParams | None = None
    ) -> Iterator[str]:
        """Yields the text of generate (or, for messages, of chat) in pieces as they are generated.

        Closing or dropping the iterator ends the work.
        """
        params = _params_of(sampling_params)
        if params.n != 1:
            raise ValueError(f"n: expected 1, since a stream is one text, found {params.n}")
        chat = _is_conversation(prompt)
        if chat:
            _, ids = self.tokenizer._chat_prompt(cast(Sequence[Message], prompt), None, None, None, False, None)
        else:
            _, ids = self._encoded(cast(Prompt, prompt))
        return _pieces(_native.Stream(self._native, ids, params, _seed_of(params), chat))

    def forward(self, token_ids: TokenIds) -> npt.NDArray[np.float32]:
        """Returns the logits after each token, [tokens, vocabulary]. Keys and values are cached in
        fp32.
        """
        return self._native.forward(self._checked_ids(token_ids))

    def perplexity(
        self,
        text: str | None = None,
        *,
        file: str | os.PathLike[str] | None = None,
        context: int | None = None,
        reference: LLM | None = None,
        progress: bool = False,
    ) -> PerplexityReport:
        """Returns the perplexity of a text or a file in chunks of `context` tokens, as GPTQ and
        SVD-LLM measure it.

        context: None means 2048, or the model's maximum if that is smaller. reference: usually the
        model before compression. With a reference the report also says how far the two models are
        apart.
        """
        if reference is not None and not isinstance(reference, LLM):
            raise TypeError(f"reference: expected an LLM, found {brief(reference)}")
        dense = None if reference is None else reference._native
        if (text is None) == (file is None):
            raise ValueError("expected either a text or a file")
        if context is not None:
            context = whole_number("context", context, 2, 1 << 30)
        if file is not None:
            return _report_of(self._native.perplexity_of_file(os.fspath(file), context, dense, bool(progress)))
        if not isinstance(text, str):
            raise TypeError(f"text: expected a string, found {brief(text)}")
        return _report_of(self._native.perplexity(text.encode(), context, dense, bool(progress)))

    def _complete(
        self, prompts: Sequence[tuple[str | None, list[int]]], sampling_params: SamplingParams | None, chat: bool
    ) -> list[RequestOutput]:
        params = _params_of(sampling_params)
        ids = [ids for _, ids in prompts for _ in range(params.n)]
        completions = iter(self._native.generate(ids, params, _seed_of(params), chat))
        with_logprobs = params.logprobs is not None
        return [
            RequestOutput(
                text, ids, [completion_output(i, next(completions), with_logprobs) for i in range(params.n)]
            )
            for text, ids in prompts
        ]

    def _encoded(self, prompt: Prompt) -> tuple[str | None, list[int]]:
        if isinstance(prompt, str):
            ids = self.tokenizer.encode(prompt)
            if not ids:
                raise ValueError("the prompt is empty: expected at least one token")
            return prompt, ids
        return None, self._checked_ids(prompt)

    def _checked_ids(self, token_ids: TokenIds) -> list[int]:
        if isinstance(token_ids, (str, bytes)) or not hasattr(token_ids, "__iter__"):
            raise TypeError(f"expected token ids, found {brief(token_ids)}")
        ids = [whole_number("token id", id, 0, self._native.vocab_size - 1) for id in token_ids]
        if not ids:
            raise ValueError("expected at least one token id, found none")
        return ids


def _report_of(values: dict[str, Any]) -> PerplexityReport:
    divergence = values.pop("divergence")
    return PerplexityReport(**values, divergence=None if divergence is None else Divergence(**divergence))


def _params_of(sampling_params: SamplingParams | None) -> SamplingParams:
    if sampling_params is None:
        return SamplingParams()
    if not isinstance(sampling_params, SamplingParams):
        raise TypeError(f"sampling_params: expected SamplingParams, found {brief(sampling_params)}")
    return sampling_params


def _seed_of(params: SamplingParams) -> int:
    return secrets.randbits(64) if params.seed is None else params.seed


def _list_of(prompts: Prompt | Sequence[Prompt]) -> Sequence[Prompt]:
    """Returns a single prompt as a list. A single prompt is a text, or a sequence that begins with
    a number.
    """
    if isinstance(prompts, str):
        return [prompts]
    if isinstance(prompts, bytes) or not hasattr(prompts, "__iter__"):
        raise TypeError(f"prompts: expected a string, strings or token ids, found {brief(prompts)}")
    items = list(prompts)
    if items and not isinstance(items[0], str) and not hasattr(items[0], "__iter__"):
        return [cast(TokenIds, items)]
    return cast(Sequence[Prompt], items)


def _is_conversation(prompt: object) -> bool:
    return isinstance(prompt, Sequence) and len(prompt) > 0 and isinstance(prompt[0], Mapping)


def _conversations_of(messages: Sequence[Any]) -> Sequence[Sequence[Message]]:
    if isinstance(messages, (str, bytes)) or not isinstance(messages, Sequence):
        raise TypeError(f"messages: expected a list of messages or of conversations, found {brief(messages)}")
    return [messages] if _is_conversation(messages) else messages


def _pieces(stream: _native.Stream) -> Iterator[str]:
    try:
        while (piece := stream.next()) is not None:
            yield piece
    finally:
        stream.close()
