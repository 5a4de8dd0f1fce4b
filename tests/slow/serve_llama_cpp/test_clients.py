"""Clients of llama.cpp's server: langchain-community's Llamafile and the terminal program llm."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from langchain_community.llms.llamafile import Llamafile


def test_llamafile_completes_and_streams(served):
    settings = {"base_url": served.url, "temperature": 0, "n_predict": 12, "seed": 3}
    whole = Llamafile(**settings).invoke("Once upon a time")
    assert whole
    assert "".join(Llamafile(**settings, streaming=True).stream("Once upon a time")) == whole


def test_llamafile_stops(served):
    model = Llamafile(base_url=served.url, temperature=0, n_predict=30)
    whole = model.invoke("Once upon a time")
    word = max(whole.split(), key=len)
    assert model.invoke("Once upon a time", stop=[word]) == whole[: whole.index(word)]


@pytest.fixture
def llm(served, tmp_path):
    """Runs the program llm, whose plugin is told the address of the server by a module that it loads first."""
    (tmp_path / "sitecustomize.py").write_text(
        "import llm_llama_server as plugin\n"
        "original = plugin.Chat.__init__\n"
        "def init(self, *args, **more):\n"
        f"    more['api_base'] = {served.url!r} + '/v1'\n"
        "    original(self, *args, **more)\n"
        "plugin.Chat.__init__ = init\n"
    )
    program = Path(sys.executable).parent / "llm"
    own = {"LLM_USER_PATH": str(tmp_path / "llm"), "OPENAI_API_KEY": "none", "PYTHONPATH": str(tmp_path)}

    def run(*arguments, text=None):
        environment = {**os.environ, **own}
        done = subprocess.run(
            [program, *arguments], input=text, capture_output=True, text=True, env=environment, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_llm_answers_and_continues(llm):
    assert llm("-m", "llama-server", "-o", "max_tokens", "12", "-o", "temperature", "0", "Tell me a story.").strip()
    assert llm("-c", "-o", "max_tokens", "12", "And then?").strip()


def test_llm_holds_a_conversation(llm):
    shown = llm("chat", "-m", "llama-server", "-o", "max_tokens", "12", text="Tell me a story.\nAnd then?\nquit\n")
    answers = shown.split("\n> ")[1:]
    assert len(answers) == 3 and all(answer.strip() for answer in answers[:2])
