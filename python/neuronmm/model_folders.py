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
    block: int | None = None,
    allocate: Allocate | None = None,
    pad: bool = False,
    bits: int | None = None,
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
    without a text), or with method svd form uv; of form uv whitened and uniform; blocks of 32. The paper's setting is
    form="uv", block=128. `bits` (8, 6 or 4) rounds all linear weights, with `group` and `lm_head_bits` as quantize()
    has them; without it they keep their dtype.

    two-sided needs the program neuronmm-finetune, on the PATH or where $NEURONMM_FINETUNE says; without it
    whitened is used, with a warning. An interrupted call keeps what it finished, and the same call goes on.
    """
    flags = _native.CompressFlags()
    flags.model, flags.output = os.fspath(model), os.fspath(output)
    flags.ratio = number("ratio", ratio, 0, 1)
    if flags.ratio in (0, 1):
        raise ValueError(f"ratio: expected a number between 0 and 1, found {ratio}")
    flags.block = None if block is None else whole_number("block", block, 1, 1 << 20)
    flags.form = None if form is None else one_of("form", form, get_args(Form))
    flags.method = None if method is None else one_of("method", method, get_args(Method))
    flags.allocate = None if allocate is None else one_of("allocate", allocate, get_args(Allocate))
    flags.pad = bool(pad)
    _set_bits(flags, bits, group, lm_head_bits)
    _set_calibration(flags, calibration, calibration_tokens, statistics)
    flags.self_generated = whole_number("self_generated", self_generated, 0, 1 << 40)
    flags.seed = whole_number("seed", seed, 0, 2**64 - 1)
    flags.metric_program = _metric_program()
    flags.measure, flags.force = bool(measure), bool(force)
    values = _native.compress(flags, thread_count(num_threads), bool(progress))
    for note in values.pop("notes"):
        warnings.warn(note, stacklevel=3)
    values["measured"] = MeasuredLoss(**values["measured"]) if values["measured"] else None
    values["matrices"] = [CompressedMatrix(**matrix) for matrix in values["matrices"]]
    values["layers"] = [CompressedLayer(**layer) for layer in values["layers"]]
    return CompressionReport(**values)


_Flags = _native.CompressFlags | _native.QuantizeFlags


def _set_bits(flags: _Flags, bits: int | None, group: int | None, lm_head_bits: int | None) -> None:
    flags.bits = None if bits is None else one_of("bits", bits, (8, 6, 4))
    flags.group = None if group is None else one_of("group", group, (16, 32))
    flags.lm_head_bits = None if lm_head_bits is None else one_of("lm_head_bits", lm_head_bits, (8, 6, 4))


def _set_calibration(flags: _Flags, texts: _Path | Sequence[_Path], tokens: int | None, statistics: _Path | None) -> None:
    files = [texts] if isinstance(texts, (str, os.PathLike)) else list(texts)
    flags.calibration = [os.fspath(file) for file in files]
    flags.calibration_tokens = None if tokens is None else whole_number("calibration_tokens", tokens, 1, 1 << 40)
    flags.statistics = None if statistics is None else os.fspath(statistics)


def _metric_program() -> str | None:
    return shutil.which(os.environ.get("NEURONMM_FINETUNE", "neuronmm-finetune"))


@refuses_removed("quantize")
def quantize(
    model: _Path,
    output: _Path,
    *,
    bits: int | None = None,
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

    What is None is as `neuronmm quantize` has it: 8 bits, groups of 16 weights for 4 bits, an LM head of 6 bits beside 4, and
    with a calibration text (or `statistics` of one) rounding gptq and smoothing, without one nearest and none.
    """
    flags = _native.QuantizeFlags()
    flags.model, flags.output = os.fspath(model), os.fspath(output)
    _set_bits(flags, bits, group, lm_head_bits)
    _set_calibration(flags, calibration, calibration_tokens, statistics)
    flags.rounding = None if rounding is None else one_of("rounding", rounding, get_args(Rounding))
    flags.smoothing = None if smoothing is None else bool(smoothing)
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
