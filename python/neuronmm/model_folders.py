"""Functions that make one model folder from another, like the commands of the same names."""

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
    """Compares the compressed model with the dense one on tokens of the calibration text."""

    tokens: int
    held_out: bool
    """Whether calibration has left these tokens out."""
    kl: float
    """The mean KL(dense || compressed), in nats per token."""
    dense_perplexity: float
    perplexity: float


@dataclass(frozen=True)
class CompressedMatrix:
    """The result for one matrix."""
    layer: int
    matrix: MatrixName
    in_features: int
    rank: int
    """0: the matrix stays dense."""
    out_features: int
    kept_share: float
    """The share of the matrix's parameters that is kept."""
    bytes_before: int
    bytes_after: int
    energy_lost: float


@dataclass(frozen=True)
class CompressedLayer:
    """The result for one MLP. A size of 0 means that nothing was removed."""

    layer: int
    gate: int
    """The number of gate's own pivots, or in form uv the rank of gate."""
    up: int
    input: int
    """The number of pivots that gate and up share."""
    neurons: int
    down: int
    kept_share: float
    """The share of the MLP's parameters that is kept."""
    largest_map: float
    predicted_loss: float
    """The predicted loss in nats per token. Use it only for ranking."""


@dataclass(frozen=True)
class CompressionReport:
    """The result of compress()."""
    form: Form
    """The form of the result, also where "auto" was asked for."""
    parameters_before: int
    """The parameters of the whole model. All numbers without the name of a matrix are for the whole
    model.
    """
    parameters_after: int
    bytes_before: int
    bytes_after: int
    calibration_tokens: int
    measured: MeasuredLoss | None
    matrices: list[CompressedMatrix]
    """One entry per matrix in form uv. Empty if whole MLPs were compared (see layers)."""
    layers: list[CompressedLayer]
    """One entry per MLP if whole MLPs were compared, else empty."""


@dataclass(frozen=True)
class QuantizationReport:
    """The result of quantize()."""
    parameters: int
    bytes_before: int
    bytes_after: int
    calibration_tokens: int


@dataclass(frozen=True)
class ImportReport:
    """The result of import_gguf()."""
    files: list[str]
    architecture: str
    """The architecture that the file names. Empty if the file has only a vocabulary."""
    class_name: str
    parameters: int
    bytes_before: int
    bytes_after: int
    tokenizer: bool
    notes: list[str]
    """Notes on what was assumed or left out."""


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
    """Writes the folder `output`, in which the MLPs of the folder `model` are replaced by smaller
    ones.

    ratio is the share of parameters to remove, and sizes are multiples of `block`. calibration
    names text files (NAME.jsonl has documents). self_generated is a number of tokens that the model
    writes itself, to be used instead of a text. All other arguments have the meaning of the same
    option of `neuronmm compress`.

    None stands for the defaults of that command: form auto, method two-sided and allocate measured
    (predicted without a text). With options that only form uv has, the defaults are uv, whitened
    and uniform. The paper's setting is form="uv", block=128. `group` and `lm_head_bits` are for
    rounded weights, as in quantize().

    Method two-sided needs the program neuronmm-finetune on the PATH or at $NEURONMM_FINETUNE.
    Without it whitened is used, with a warning. An interrupted call keeps what it has finished, and
    the same call continues from there.
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
    """Returns whether MLPs are compared as a whole instead of matrix by matrix."""
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
    """Writes the folder `output` with the weights of the folder `model` in 8, 6 or 4 bits. `model`
    may be dense or compressed.

    None stands for the defaults of `neuronmm quantize`. Weights of 4 bits have groups of 16
    weights, and the LM head then has 6 bits. With a calibration text (or its `statistics`) rounding
    is gptq and smoothing is on. Without a text rounding is nearest and smoothing is off.
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
    """Writes the folder `output` from a GGUF file. Of a split file any part may be named."""
    dtype = cast(Dtype, one_of("dtype", dtype, get_args(Dtype)))
    threads = thread_count(num_threads)
    paths = os.fspath(file), os.fspath(output)
    return ImportReport(**_native.import_gguf(*paths, dtype, bool(force), threads, bool(progress)))
