"""Functions that make one model folder from another, like the commands of the same names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from . import _native
from .arguments import number, one_of, thread_count, whole_number
from .removed import refuses_removed

_Path = str | os.PathLike[str]
Form = Literal["uv", "pivoted", "narrow", "neurons", "mixed", "experts", "basis", "auto"]
Method = Literal["two-sided", "whitened", "svd"]
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
    rank: int | None
    """None: the matrix stays dense."""
    out_features: int
    kept_share: float
    """The share of the matrix's parameters that is kept."""
    bytes_before: int
    bytes_after: int
    energy_lost: float


@dataclass(frozen=True)
class CompressedLayer:
    """The result for one MLP. A size of None means that nothing was removed."""

    layer: int
    gate: int | None
    """The number of gate's own pivots, or in form uv the rank of gate."""
    up: int | None
    input: int | None
    """The number of pivots that gate and up share."""
    neurons: int | None
    down: int | None
    kept_share: float
    """The share of the MLP's parameters that is kept."""
    largest_map: float
    predicted_loss: float
    """The predicted loss in nats per token. Use it only for ranking."""


@dataclass(frozen=True)
class LearntLayer:
    """The result for one layer that learns. Errors are relative to the dense layer's output, on
    held-out text.
    """
    error_before: float
    error_after: float
    passes: int
    """The passes over the text, until the error no longer fell."""
    skipped_steps: int
    """Steps whose gradient was not finite."""
    seconds: float


@dataclass(frozen=True)
class ReconstructionReport:
    """The result of layer reconstruction."""
    tokens: int
    held_out_tokens: int
    most_passes: int
    layers: list[LearntLayer]


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
    reconstruction: ReconstructionReport | None
    """None if no layer has learnt."""


@dataclass(frozen=True)
class QuantizationReport:
    """The result of quantize()."""
    parameters: int
    bytes_before: int
    bytes_after: int
    calibration_tokens: int
    reconstruction: ReconstructionReport | None
    """What the layers have learnt, or None."""


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
    statistics: _Path | None = None,
    block: int | None = None,
    allocate: Allocate | None = None,
    pad: bool = False,
    bits: int | None = None,
    group: int | None = None,
    lm_head_bits: int | None = None,
    embedding_bits: int | None = None,
    reconstruct: Literal["auto", "off"] | int | None = None,
    measure: bool = True,
    force: bool = False,
    num_threads: int | None = None,
    progress: bool = False,
) -> CompressionReport:
    """Writes the folder `output`, in which the MLPs of the folder `model` are replaced by smaller
    ones.

    ratio is the share of parameters to remove, and sizes are multiples of `block`. calibration
    names text files (NAME.jsonl has documents or chats). self_generated is a number of tokens that
    the model writes itself, to be used instead of a text. `bits` (8, 6 or 4) rounds all linear
    weights, with `group`, `lm_head_bits` and `embedding_bits` as in quantize(). All other
    arguments have the meaning and the default of the same option of `neuronmm compress`. The
    paper's setting is form="uv", block=128, reconstruct="off".

    None stands for the defaults of that command: form auto, method two-sided, blocks of 32,
    allocate measured (predicted without a text), and reconstruct "auto". Method svd implies form
    uv. Form uv has the defaults whitened and uniform.

    An interrupted call keeps what it has finished, and the same call continues from there.
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
    _set_bits(flags, bits, group, lm_head_bits, embedding_bits)
    _set_calibration(flags, calibration, calibration_tokens, statistics)
    flags.self_generated = whole_number("self_generated", self_generated, 0, 1 << 40)
    flags.reconstruct = _reconstruct(reconstruct)
    flags.measure, flags.force = bool(measure), bool(force)
    values = _native.compress(flags, thread_count(num_threads), bool(progress))
    values["measured"] = MeasuredLoss(**values["measured"]) if values["measured"] else None
    values["matrices"] = [CompressedMatrix(**matrix) for matrix in values["matrices"]]
    values["layers"] = [CompressedLayer(**layer) for layer in values["layers"]]
    _set_reconstruction(values)
    return CompressionReport(**values)


def _reconstruct(tokens: str | int | None) -> str | None:
    if tokens is None:
        return None
    if isinstance(tokens, str):
        return one_of("reconstruct", tokens, ("auto", "off"))
    return str(whole_number("reconstruct", tokens, 1, 1 << 40))


def _set_reconstruction(values: dict[str, Any]) -> None:
    if reconstruction := values["reconstruction"]:
        layers = [LearntLayer(**layer) for layer in reconstruction.pop("layers")]
        values["reconstruction"] = ReconstructionReport(**reconstruction, layers=layers)


_Flags = _native.CompressFlags | _native.QuantizeFlags


def _set_bits(
    flags: _Flags, bits: int | None, group: int | None, lm_head_bits: int | None, embedding_bits: int | None
) -> None:
    flags.bits = None if bits is None else one_of("bits", bits, (8, 6, 4))
    flags.group = None if group is None else one_of("group", group, (16, 32))
    flags.lm_head_bits = None if lm_head_bits is None else one_of("lm_head_bits", lm_head_bits, (8, 6, 4))
    flags.embedding_bits = None if embedding_bits is None else one_of("embedding_bits", embedding_bits, (16, 8, 6, 4))


def _set_calibration(flags: _Flags, texts: _Path | Sequence[_Path], tokens: int | None, statistics: _Path | None) -> None:
    files = [texts] if isinstance(texts, (str, os.PathLike)) else list(texts)
    flags.calibration = [os.fspath(file) for file in files]
    flags.calibration_tokens = None if tokens is None else whole_number("calibration_tokens", tokens, 1, 1 << 40)
    flags.statistics = None if statistics is None else os.fspath(statistics)


@refuses_removed("quantize")
def quantize(
    model: _Path,
    output: _Path,
    *,
    bits: int | None = None,
    group: int | None = None,
    lm_head_bits: int | None = None,
    embedding_bits: int | None = None,
    calibration: _Path | Sequence[_Path] = (),
    calibration_tokens: int | None = None,
    statistics: _Path | None = None,
    rounding: Rounding | None = None,
    smoothing: bool | None = None,
    reconstruct: Literal["auto", "off"] | int | None = None,
    force: bool = False,
    num_threads: int | None = None,
    progress: bool = False,
) -> QuantizationReport:
    """Writes the folder `output` with the weights of the folder `model` in 8, 6 or 4 bits. `model`
    may be dense or compressed.

    None stands for the defaults of `neuronmm quantize`. Weights of 4 bits have groups of 16
    weights, and the LM head then has 6 bits. `embedding_bits` are those of the embedding table (16:
    the table stays as it is). A table that is also the LM head has one number of bits. With a
    calibration text (or its `statistics`) rounding is gptq and smoothing is on. Without a text
    rounding is nearest and smoothing is off. `reconstruct` lets layers of 6 and 4 bits learn from
    a number of tokens of the text; "auto" is for 4 bits and decides by the machine.
    """
    flags = _native.QuantizeFlags()
    flags.model, flags.output = os.fspath(model), os.fspath(output)
    _set_bits(flags, bits, group, lm_head_bits, embedding_bits)
    _set_calibration(flags, calibration, calibration_tokens, statistics)
    flags.rounding = None if rounding is None else one_of("rounding", rounding, get_args(Rounding))
    flags.smoothing = None if smoothing is None else bool(smoothing)
    flags.reconstruct = _reconstruct(reconstruct)
    flags.force = bool(force)
    values = _native.quantize(flags, thread_count(num_threads), bool(progress))
    _set_reconstruction(values)
    return QuantizationReport(**values)


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
