"""Prints what llama-cpp-python computes from a GGUF file; gguf_out.py is the caller.

usage: by_llama_cpp.py logits FILE ID ID ...   the logits of all tokens as fp32, with keys and values in fp32
       by_llama_cpp.py prompt FILE MESSAGES    the prompt of a conversation in a JSON file, by the file's template
       by_llama_cpp.py answer FILE MESSAGES    an answer to the conversation, at temperature 0
"""

import json
import pathlib
import sys

import llama_cpp
from llama_cpp import llama_chat_format

FP32 = 0  # ggml_type


def load(file, tokens):
    return llama_cpp.Llama(file, n_ctx=max(64, tokens), n_batch=max(64, tokens), n_ubatch=max(64, tokens),
                           n_threads=2, n_threads_batch=2, logits_all=True, flash_attn=False, type_k=FP32,
                           type_v=FP32, verbose=False)


def main():
    job, file, *rest = sys.argv[1:]
    if job == "logits":
        ids = [int(word) for word in rest]
        model = load(file, len(ids))
        model.eval(ids)
        sys.stdout.buffer.write(model.scores[: len(ids)].tobytes())
        return
    messages = json.loads(pathlib.Path(rest[0]).read_text())
    model = load(file, 512)
    if job == "answer":
        reply = model.create_chat_completion(messages, max_tokens=16, temperature=0)
        print(json.dumps(reply["choices"][0]["message"]["content"]))
        return
    special = [model._model.token_get_text(token) if token >= 0 else "" for token in (model.token_eos(), model.token_bos())]
    formatter = llama_chat_format.Jinja2ChatFormatter(model.metadata["tokenizer.chat_template"], *special)
    print(json.dumps(formatter(messages=messages).prompt))


if __name__ == "__main__":
    main()
