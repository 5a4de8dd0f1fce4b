"""Fixtures for the tests of the Python package `neuronmm`.

Most tests use the bundled model. They compare the package with the program `neuronmm` that was
installed together with it, because both must give the same results.
"""

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import neuronmm

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "models" / "demo"
PROGRAM = Path(sysconfig.get_path("scripts")) / "neuronmm"

Program = Callable[..., str]
SmolLM2 = tuple[neuronmm.LLM, list[dict[str, Any]]]


@pytest.fixture(scope="session")
def program() -> Program:
    def run(*arguments: object) -> str:
        return subprocess.run([PROGRAM, *map(str, arguments)], check=True, capture_output=True, text=True).stdout

    return run


@pytest.fixture(scope="session")
def llm() -> neuronmm.LLM:
    return neuronmm.LLM(DEMO)


@pytest.fixture(scope="session")
def chat_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the bundled model and a chat template. The model itself is not a chat
    model.
    """
    folder = tmp_path_factory.mktemp("chat")
    for file in DEMO.iterdir():
        os.symlink(file, folder / file.name)
    (folder / "chat_template.jinja").write_text(
        "{% if tools %}{{ tools[0].name }}: {% endif %}{% if shout %}! {% endif %}"
        "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"
    )
    return folder


@pytest.fixture(scope="session")
def sampling_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the bundled model whose generation config asks for random sampling."""
    folder = tmp_path_factory.mktemp("sampling")
    for file in DEMO.iterdir():
        os.symlink(file, folder / file.name)
    config = json.loads((DEMO / "generation_config.json").read_text())
    config |= {"do_sample": True, "temperature": 0.7, "top_k": 40, "top_p": 0.9, "max_new_tokens": 24}
    (folder / "generation_config.json").unlink()
    (folder / "generation_config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmolLM2]:
    """Yields an imported chat model and the results of Hugging Face transformers for it. Tests are
    skipped if the test data are absent.
    """
    data = Path(os.environ.get("NEURONMM_TEST_DATA", ROOT.parent / "shared" / "data"))
    source = data / "models" / "smollm2-135m-instruct"
    files = sorted(source.glob("*.gguf")) if source.is_dir() else []
    if not files:
        pytest.skip(f"{source} is absent; set NEURONMM_TEST_DATA to the folder that holds models")
    folder = tmp_path_factory.mktemp("import") / "smollm2"
    report = neuronmm.import_gguf(files[0], folder, dtype="f32")
    assert report.class_name == "LlamaForCausalLM" and report.tokenizer
    cases = json.loads((source / "cases.json").read_text())
    yield neuronmm.LLM(folder), cases
    shutil.rmtree(folder)
