"""Turns text and conversations into tokens."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import _native
from .arguments import brief, whole_number

Message = Mapping[str, Any]
"""A message has at least "role" and "content"."""


class Tokenizer:
    """The tokenizer of a model folder, a GGUF file or a name in the Hugging Face cache. Ids and
    texts are the same as those of the tokenizers library.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._native = _native.Tokenizer(os.fspath(path))

    @classmethod
    def _of(cls, native: _native.Tokenizer) -> Tokenizer:
        tokenizer = cls.__new__(cls)
        tokenizer._native = native
        return tokenizer

    def encode(self, text: str, *, add_special_tokens: bool = True, parse_special: bool = True) -> list[int]:
        """Returns the token ids of a text.

        add_special_tokens: add the tokens that the tokenizer puts around a text. parse_special:
        read special tokens in the text, such as <|eot_id|>, as tokens; otherwise they are plain
        text.
        """
        if not isinstance(text, str):
            raise TypeError(f"text: expected a string, found {brief(text)}")
        return self._native.encode(text.encode(), add_special_tokens, parse_special)

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """Returns the text of token ids. Unknown ids are left out, and invalid UTF-8 becomes
        U+FFFD.
        """
        ids = [whole_number("token_ids", id, -(2**31), 2**31 - 1) for id in token_ids]
        return self._native.decode(ids, bool(skip_special_tokens)).decode(errors="replace")

    def apply_chat_template(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool | None = None,
        continue_final_message: bool | str = False,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """Returns the conversation as the text that the model reads.

        add_generation_prompt: None means True unless the last message is continued.
        continue_final_message may be the name of the field that is continued.
        """
        return self._chat_prompt(
            messages, tools, documents, add_generation_prompt, continue_final_message, chat_template_kwargs
        )[0]

    def _chat_prompt(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None,
        documents: Sequence[Mapping[str, Any]] | None,
        add_generation_prompt: bool | None,
        continue_final_message: bool | str,
        chat_template_kwargs: Mapping[str, Any] | None,
    ) -> tuple[str, list[int]]:
        """Returns text and tokens of a conversation. The words of messages are never read as
        special tokens.
        """
        conversation: dict[str, Any] = {"messages": messages, "continue_final_message": continue_final_message}
        if tools is not None:
            conversation["tools"] = tools
        if documents is not None:
            conversation["documents"] = documents
        if add_generation_prompt is not None:
            conversation["add_generation_prompt"] = add_generation_prompt
        if chat_template_kwargs is not None:
            conversation["chat_template_kwargs"] = chat_template_kwargs
        text, ids = self._native.apply_chat_template(json.dumps(conversation, allow_nan=False))
        return text.decode(errors="replace"), ids

    @property
    def vocab_size(self) -> int:
        """The largest id + 1."""
        return self._native.vocab_size

    @property
    def bos_id(self) -> int | None:
        return self._native.bos_id

    @property
    def eos_id(self) -> int | None:
        return self._native.eos_id
