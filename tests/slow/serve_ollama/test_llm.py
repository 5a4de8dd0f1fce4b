"""Has a conversation with `neuronmm serve` in the terminal program llm, which speaks to Ollama."""

import os
import re
import sys
from pathlib import Path

import pexpect


def test_a_conversation_works(url, tmp_path):
    environment = os.environ | {"OLLAMA_HOST": url, "LLM_USER_PATH": str(tmp_path), "TERM": "xterm"}
    program = str(Path(sys.executable).parent / "llm")
    listed = pexpect.run(f"{program} models list", env=environment).decode()
    assert "Ollama: ollama/demo:latest" in listed
    chat = pexpect.spawn(
        program,
        ["chat", "--model", "ollama/demo:latest", "--option", "num_predict", "12", "--option", "temperature", "0"],
        env=environment,
        encoding="utf-8",
        timeout=60,
    )
    answers = []
    for question in ["Once upon a time there was", "Then the dog"]:
        chat.expect("> ")
        chat.sendline(question)
        chat.expect(re.escape(question))
        chat.expect(r"\n(?=> )")
        answers.append(chat.before.strip())
    assert all(re.search("[a-z]{2}", answer) for answer in answers) and answers[0] != answers[1]
    chat.expect("> ")
    chat.sendline("quit")
    chat.expect(pexpect.EOF)
