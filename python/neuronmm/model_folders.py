"""Model folders made from others, as the commands of the same names make them."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

from . import _native
from .arguments import number, one_of, thread_count, whole_number
from .removed import refuses_removed

_Path = str | os.PathLike[str]
Form = Literal["uv", "pivoted", "narrow", "neurons", "mixed", "auto"]
Method = Literal["two-sided", "whitened", "svd"]
Weights = Literal["original", "int8", "int6", "int4"]
Allocate = Literal["uniform", "predicted", "measured"]
Rounding = Literal["nearest", "gptq"]
Dtype = Literal["bf16", "f16", "f32"]
MatrixName = Literal["gate", "up", "down"]


@dataclass(frozen=True)
class MeasuredLoss:
    """The compressed model beside the dense one, on tokens of the calibration text."""

    tokens: int
    held_out: bool
    """Whether calibration has left these tokens out."""
    kl: float
    """The mean KL(dense || compressed), in nats per token."""
    dense_perplexity: float
    perplexity: float


@dataclass(frozen=True)
class CompressedMatrix:
    layer: int
    matrix: MatrixName
    in_features: int
    rank: int
    """0: it stays dense."""
    out_features: int
    kept_share: float
    """Of its parameters."""
    bytes_before: int
    bytes_after: int
    energy_lost: float


@dataclass(frozen=True)
class CompressedLayer:
    """Sizes of 0 are whole."""

    layer: int
    gate: int
    """Pivots of its own; in form uv the rank."""
    up: int
    input: int
    """Pivots that gate and up share."""
    neurons: int
    down: int
    kept_share: float
    """Of the MLP's parameters."""
    largest_map: float
    predicted_loss: float
    """In nats per token; for ranking."""


@dataclass(frozen=True)
class CompressionReport:
    form: Form
    """What auto has become."""
    parameters_before: int
    """Of the whole model, as all that is not said of a matrix."""
    parameters_after: int
    bytes_before: int
    bytes_after: int
    calibration_tokens: int
    measured: MeasuredLoss | None
    matrices: list[CompressedMatrix]
    """Of form uv, unless whole MLPs were weighed."""
    layers: list[CompressedLayer]
    """Where they were."""


@dataclass(frozen=True)
class QuantizationReport:
    parameters: int
    bytes_before: int
    bytes_after: int
    calibration_tokens: int


@dataclass(frozen=True)
class ImportReport:
    files: list[str]
    architecture: str
    """Of the file; empty: it has a vocabulary only."""
    class_name: str
    parameters: int
    bytes_before: int
    bytes_after: int
    tokenizer: bool
    notes: list[str]
    """What was assumed or left out."""


@refuses_removed("compress")
def compress(
    model: _Path,
    output: _Path,
    *,
    ratio: float,
    form: Form | None = None,
    method: Method | None = None,
    calibration: _Path | Sequence[_Path] = (),
    calibration_tokens: int | None = None,
    self_generated: int = 0,
    seed: int = 0,
    statistics: _Path | None = None,
    block: int = 32,
    allocate: Allocate | None = None,
    pad: bool = False,
    weights: Weights = "original",
    group: int | None = None,
    lm_head_bits: int | None = None,
    measure: bool = True,
    force: bool = False,
    num_threads: int | None = None,
    progress: bool = False,
) -> CompressionReport:
    """Writes the folder `output` with smaller MLPs in place of those of the folder `model`.

    ratio is the share of parameters to remove, sizes are multiples of `block`, calibration names text files
    (NAME.jsonl has documents); self_generated is a number of tokens that the model writes in their place. The rest is
    as `neuronmm compress` has it, and what is None too: form auto, method two-sided and allocate measured (predicted
    without a text), or with options that only form uv has uv, whitened and uniform. The paper's setting is form="uv",
    block=128. `group` and `lm_head_bits` go with rounded weights, as quantize() has them.

    two-sided needs the program neuronmm-finetune, on the PATH or where $NEURONMM_FINETUNE says; without it
    whitened is used, with a warning. An interrupted call keeps what it finished, and the same call goes on.
    """
    flags = _native.CompressFlags()
    flags.model, flags.output = os.fspath(model), os.fspath(output)
    flags.ratio = number("ratio", ratio, 0, 1)
    if flags.ratio in (0, 1):
        raise ValueError(f"ratio: expected a number between 0 and 1, found {ratio}")
    flags.block = whole_number("block", block, 1, 1 << 20)
    flags.statistics = None if statistics is None else os.fspath(statistics)
    only_of_uv = method == "svd"
    if form is None:
        form = "uv" if only_of_uv else "auto"
    flags.form = one_of("form", form, get_args(Form))
    files = [calibration] if isinstance(calibration, (str, os.PathLike)) else list(calibration)
    flags.calibration = [os.fspath(file) for file in files]
    flags.self_generated = whole_number("self_generated", self_generated, 0, 1 << 40)
    if allocate is None:
        by_loss: Allocate = "measured" if files or self_generated else "predicted"
        allocate = "uniform" if form == "uv" else by_loss
    flags.allocate = one_of("allocate", allocate, get_args(Allocate))
    flags.pad = bool(pad)
    _set_method(flags, method or ("whitened" if form == "uv" else "two-sided"))
    flags.weights = one_of("weights", weights, get_args(Weights))
    flags.group, flags.lm_head_bits = _weight_options(group, lm_head_bits)
    if lm_head_bits is not None and weights == "original":
        raise ValueError(f"lm_head_bits: only rounded weights have them, found weights {weights}")
    if group is not None and weights != "int4" and (weights == "original" or lm_head_bits != 4):
        raise ValueError(f"group: only weights of 4 bits have groups, found weights {weights}")
    if calibration_tokens is None:
        of_shapes = _narrows_mlps(flags)
        calibration_tokens = _native.SHAPE_CALIBRATION_TOKENS if of_shapes else _native.DEFAULT_CALIBRATION_TOKENS
    flags.calibration_tokens = whole_number("calibration_tokens", calibration_tokens, 1, 1 << 40)
    flags.seed = whole_number("seed", seed, 0, 2**64 - 1)
    _check_text(flags)
    flags.measure, flags.force = bool(measure), bool(force)
    values = _native.compress(flags, thread_count(num_threads), bool(progress))
    values["measured"] = MeasuredLoss(**values["measured"]) if values["measured"] else None
    values["matrices"] = [CompressedMatrix(**matrix) for matrix in values["matrices"]]
    values["layers"] = [CompressedLayer(**layer) for layer in values["layers"]]
    return CompressionReport(**values)


def _weight_options(group: int | None, lm_head_bits: int | None) -> tuple[int | None, int | None]:
    return (
        None if group is None else one_of("group", group, (16, 32)),
        None if lm_head_bits is None else one_of("lm_head_bits", lm_head_bits, (8, 6, 4)),
    )


def _narrows_mlps(flags: _native.CompressFlags) -> bool:
    """Whether MLPs are weighed as a whole, rather than each matrix for itself."""
    return flags.form != "uv" or flags.method == "two-sided" or flags.allocate == "predicted"


def _set_method(flags: _native.CompressFlags, method: str) -> None:
    flags.method = one_of("method", method, get_args(Method))
    if flags.method == "two-sided":
        flags.metric_program = _metric_program()
        saved = flags.statistics is not None and os.path.exists(os.path.join(flags.statistics, "metric.safetensors"))
        if flags.metric_program is None and not saved:
            warnings.warn(
                "method two-sided needs the program neuronmm-finetune, which is not there; whitened is used",
                stacklevel=3,
            )
            flags.method = "whitened"


def _metric_program() -> str | None:
    return shutil.which(os.environ.get("NEURONMM_FINETUNE", "neuronmm-finetune"))


def _check_text(flags: _native.CompressFlags) -> None:
    if flags.calibration or flags.self_generated > 0:
        return
    if flags.allocate == "measured":
        raise ValueError("allocate measured needs a calibration text, on which it measures every matrix")
    if flags.statistics is None and (_narrows_mlps(flags) or flags.method != "svd"):
        raise ValueError(f"form {flags.form}, method {flags.method}: needs a calibration text, self_generated or statistics")


@refuses_removed("quantize")
def quantize(
    model: _Path,
    output: _Path,
    *,
    bits: int = 8,
    group: int | None = None,
    lm_head_bits: int | None = None,
    calibration: _Path | Sequence[_Path] = (),
    calibration_tokens: int | None = None,
    statistics: _Path | None = None,
    rounding: Rounding | None = None,
    smoothing: bool | None = None,
    force: bool = False,
    num_threads: int | None = None,
    progress: bool = False,
) -> QuantizationReport:
    """Writes the folder `output` with the weights of the folder `model`, dense or compressed, in 8, 6 or 4 bits.

    What is None is as `neuronmm quantize` has it: groups of 16 weights for 4 bits, an LM head of 6 bits beside 4, and
    with a calibration text (or `statistics` of one) rounding gptq and smoothing, without one nearest and none.
    """
    flags = _native.QuantizeFlags()
    flags.model, flags.output = os.fspath(model), os.fspath(output)
    flags.bits = one_of("bits", bits, (8, 6, 4))
    flags.group, flags.lm_head_bits = _weight_options(group, lm_head_bits)
    if group is not None and 4 not in (bits, lm_head_bits):
        raise ValueError(f"group: only weights of 4 bits have groups, found bits {bits}")
    files = [calibration] if isinstance(calibration, (str, os.PathLike)) else list(calibration)
    flags.calibration = [os.fspath(file) for file in files]
    tokens = _native.SHAPE_CALIBRATION_TOKENS if calibration_tokens is None else calibration_tokens
    flags.calibration_tokens = whole_number("calibration_tokens", tokens, 1, 1 << 40)
    flags.statistics = None if statistics is None else os.fspath(statistics)
    text = bool(files) or statistics is not None
    rounding = one_of("rounding", rounding or ("gptq" if text else "nearest"), get_args(Rounding))
    flags.gptq, flags.smoothing = rounding == "gptq", text if smoothing is None else bool(smoothing)
    if not text and (flags.gptq or flags.smoothing):
        raise ValueError("rounding gptq and smoothing need a calibration text or statistics")
    if text and not flags.gptq and not flags.smoothing:
        raise ValueError("calibration: has no use beside rounding nearest and no smoothing")
    flags.force = bool(force)
    return QuantizationReport(**_native.quantize(flags, thread_count(num_threads), bool(progress)))


def import_gguf(
    file: _Path,
    output: _Path,
    *,
    dtype: Dtype = "bf16",
    force: bool = False,
    num_threads: int | None = None,
    progress: bool = False,
) -> ImportReport:
    """Writes the folder `output` from a GGUF file (of a split one, any part)."""
    dtype = cast(Dtype, one_of("dtype", dtype, get_args(Dtype)))
    threads = thread_count(num_threads)
    paths = os.fspath(file), os.fspath(output)
    return ImportReport(**_native.import_gguf(*paths, dtype, bool(force), threads, bool(progress)))
