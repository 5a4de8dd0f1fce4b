"""Tests that Ctrl-C ends a call long before its work would be done, and that the process can go on.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import DEMO, PROGRAM

BEGIN = f"""
import os, signal, sys, threading, time
from pathlib import Path
import neuronmm
from neuronmm import LLM, SamplingParams
DEMO = {str(DEMO)!r}
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start background jobs with SIGINT ignored
handler = signal.getsignal(signal.SIGINT)

def interrupted(work, after=0.5):
    timer = threading.Timer(after, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    try:
        work()
    except KeyboardInterrupt:
        taken = time.monotonic() - start - after
        assert taken < 4, taken  # half a second where cores are idle; to its end the work takes much longer
    else:
        raise AssertionError("not interrupted")
    assert signal.getsignal(signal.SIGINT) is handler
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a model whose prompts take seconds. It has a few hundred million random weights."""
    folder = tmp_path_factory.mktemp("large")
    config = (DEMO / "config.json").read_text()
    for name, value in [("hidden_size", 1536), ("intermediate_size", 8192), ("num_hidden_layers", 6), ("max_position_embeddings", 8192)]:
        lines = config.splitlines()
        config = "\n".join(f'  "{name}": {value},' if f'"{name}"' in line else line for line in lines)
    (folder / "config.json").write_text(config)
    subprocess.run([PROGRAM, "synthesize", "--config", folder / "config.json", "-o", folder / "model"], check=True, capture_output=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / "model" / name).write_bytes((DEMO / name).read_bytes())
    return folder / "model"


def run(script: str) -> None:
    result = subprocess.run([sys.executable, "-c", BEGIN + script], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr


def test_generation_is_interrupted(large: Path) -> None:
    run(f"""
llm = LLM({str(large)!r})
small = LLM(DEMO)
expected = small.generate("The river", SamplingParams(max_tokens=8))[0].outputs
prompt = [7] * 6000
interrupted(lambda: llm.generate([prompt]))                                            # prefill
interrupted(lambda: llm.generate("The", SamplingParams(max_tokens=8000, ignore_eos=True)))  # decode
interrupted(lambda: list(llm.stream(prompt)))
interrupted(lambda: llm.forward(prompt))
interrupted(lambda: llm.perplexity("word " * 20000, context=8000))
assert small.generate("The river", SamplingParams(max_tokens=8))[0].outputs == expected
assert llm.forward([7, 8]).shape == (2, 2048)
""")


def test_compression_is_interrupted(large: Path, tmp_path: Path) -> None:
    run(f"""
out = Path({str(tmp_path)!r}) / "out"
def work(): neuronmm.compress({str(large)!r}, out, ratio=0.5, method="svd", measure=False)
interrupted(work, 3.0)
assert not out.exists()
demo = Path({str(tmp_path)!r}) / "demo"
neuronmm.compress(DEMO, demo, ratio=0.2, calibration=DEMO + "/calibration.txt")  # waits for what was left behind
assert neuronmm.LLM(demo).generate("The")[0].outputs[0].text
text = Path({str(tmp_path)!r}) / "long.txt"
text.write_text(Path(DEMO, "calibration.txt").read_text() * 20)
interrupted(lambda: neuronmm.compress({str(large)!r}, out, ratio=0.5, calibration=text, force=True), 6.0)
assert not out.exists()
""")


def test_custom_signal_handler_may_let_the_call_continue() -> None:
    run("""
calls = []
signal.signal(signal.SIGINT, lambda *_: calls.append(1))
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
llm = LLM(DEMO)
end = time.monotonic() + 1
while time.monotonic() < end:
    text = llm.generate("The river", SamplingParams(max_tokens=200))[0].outputs[0].text
assert calls == [1]
assert text == llm.generate("The river", SamplingParams(max_tokens=200))[0].outputs[0].text
""")


def test_uncaught_interrupt_ends_the_process_promptly(large: Path) -> None:
    """Interrupts a process that does not catch the interrupt, while a long step may still be
    running.
    """
    script = f"""
import signal, neuronmm
signal.signal(signal.SIGINT, signal.default_int_handler)
llm = neuronmm.LLM({str(large)!r})
print('ready', flush=True)
llm.generate([[7] * 8000])
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        message = process.stderr.read()
        assert process.wait() == -signal.SIGINT
        # The prompt would take about 15 seconds, and twice as long on a busy machine.
        assert time.monotonic() - start < 5
        assert message.rstrip().endswith("KeyboardInterrupt")


def test_exit_during_a_running_stream(large: Path) -> None:
    script = f"""
import neuronmm
llm = neuronmm.LLM({str(large)!r})
stream = llm.stream([7] * 8000)
import sys; sys.exit(3)
"""
    start = time.monotonic()
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 3
    assert time.monotonic() - start < 10


def test_model_works_after_a_memory_error(large: Path) -> None:
    run(f"""
import resource
llm = LLM({str(large)!r}, num_threads=1)
assert llm.forward([1]).shape == (1, 2048)
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (20 << 20), resource.RLIM_INFINITY))
try:
    llm.forward([1] * 8000)
except MemoryError:
    pass
else:
    raise AssertionError("there was memory")
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert llm.forward([1, 2]).shape == (2, 2048)
""")
