"""Reads the files of this export, and compares and reports the results of a device."""

import importlib.metadata
import json
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE / "model"
KERNELS = HERE / "kernels"
# The number of log probabilities per position that are compared. vLLM returns this many by default.
TOP = 20

# The root mean square of the difference of two logits, as a share of the largest logit, that
# rounding to bf16 may cause. Measured for transformers in bf16 on the CPU: 0.006 on models of this
# kind. Assumed here, for log probabilities: about three times as much.
BF16_RMS = 0.02


def read_export():
    path = HERE / "export.json"
    if not path.is_file():
        sys.exit(f"{path} is missing: copy the whole folder again, or export again")
    return json.loads(path.read_text())


def require_writable(path):
    """Ends the program if a report cannot be written. Scripts ask before they work for hours."""
    try:
        path.open("a").close()
    except OSError as error:
        sys.exit(f"{path} cannot be written: {error.strerror}; name another file with --output")


def read_golden():
    """Returns [(tokens, first position, logits [positions, vocabulary])], computed by neuronmm's
    CPU backend.
    """
    from safetensors.torch import load_file

    tensors = load_file(HERE / "golden.safetensors")
    golden = []
    for index in range(len(tensors) // 2):
        tokens, logits = tensors[f"sequences.{index}"], tensors[f"logits.{index}"]
        golden.append((tokens.tolist(), len(tokens) - len(logits), logits))
    return golden


def installed(names):
    """Returns the versions of the named packages. The version of a missing package is None."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


class Comparison:
    """Compares positions of a device with the golden ones. Each position sees the golden tokens
    before it.
    """

    def __init__(self):
        self.squares = self.values = self.positions = self.same = 0
        self.largest = self.scale = 0.0

    def add(self, golden, found):
        """Adds one position.

        golden: the logits of the position. found: {token id: log probability} of its most likely
        tokens.
        """
        expected = golden.double().log_softmax(-1)
        self.positions += 1
        self.scale = max(self.scale, golden.abs().max().item())
        self.same += max(found, key=found.get) == golden.argmax().item()
        for token, value in found.items():
            difference = abs(value - expected[token].item())
            self.largest = max(self.largest, difference if math.isfinite(difference) else math.inf)
            self.squares += difference**2
            self.values += 1

    def report(self):
        rms = math.sqrt(self.squares / self.values) / self.scale
        return {"positions": self.positions, "same_choice": self.same, "rms": rms, "largest": self.largest / self.scale,
                "bound": BF16_RMS, "passed": rms <= BF16_RMS}  # fmt: skip


def compare(engine, golden):
    comparison = Comparison()
    for tokens, first, logits in golden:
        for row, found in zip(logits, engine.log_probabilities(tokens, first), strict=True):
            comparison.add(row, found)
    return comparison.report()


def percentile(values, percent):
    values = sorted(values)
    place = (len(values) - 1) * percent / 100
    low = math.floor(place)
    return values[low] + (values[math.ceil(place)] - values[low]) * (place - low)


def statistics(seconds, tokens):
    """Returns latency statistics under the names of NxDI's benchmark_report.json and of `neuronmm
    bench --json`.
    """
    report = {f"latency_ms_p{p}": 1e3 * percentile(seconds, p) for p in (50, 90, 95, 99, 100)}
    average = sum(seconds) / len(seconds)
    return report | {"latency_ms_avg": 1e3 * average, "throughput": tokens / average}


def latency_report(engine, prompt_tokens, new_tokens, runs):
    """Times `runs` requests of one engine and returns their statistics.

    engine.run_once returns (seconds until the first token, seconds until the last token). Some
    engines measure the two times in two requests. A disturbance of the first request must not make
    decoding look faster than it is, so that the fastest first token is subtracted from all of them.
    """
    engine.run_once(prompt_tokens, new_tokens)  # a warm-up
    timed = [engine.run_once(prompt_tokens, new_tokens) for _ in range(runs)]
    prefill, whole = [first for first, _ in timed], [last for _, last in timed]
    if engine.TIMES_FIRST_TOKEN_SEPARATELY:
        timed = [(min(prefill), last) for _, last in timed]
    decode = [(last - first) / (new_tokens - 1) for first, last in timed]
    if min(decode) <= 0:
        raise RuntimeError(
            f"{new_tokens} tokens took {1e3 * min(whole):.3f} ms, the first alone {1e3 * min(prefill):.3f} ms: "
            "this machine is too busy to time them"
        )
    return {"e2e_model": statistics(whole, prompt_tokens + new_tokens),
            "context_encoding_model": statistics(prefill, prompt_tokens),
            "token_generation_model": statistics(decode, 1),
            "runs": runs}  # fmt: skip
