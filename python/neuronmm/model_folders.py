"""Model folders made from others, as the commands of the same names make them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

from . import _native
from .arguments import number, one_of, thread_count, whole_number

_Path = str | os.PathLike[str]
Method = Literal["whitened", "error-aware", "svd"]
Weights = Literal["original", "int8"]
Align = Literal["nearest", "floor", "ceil"]
Allocate = Literal["uniform", "sensitivity"]
Dtype = Literal["bf16", "f16", "f32"]
MatrixName = Literal["gate", "up", "down"]
_MATRICES: tuple[MatrixName, ...] = get_args(MatrixName)


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
class CompressionReport:
    parameters_before: int
    """Of the whole model, as all that is not said of a matrix."""
    parameters_after: int
    bytes_before: int
    bytes_after: int
    calibration_tokens: int
    measured: MeasuredLoss | None
    matrices: list[CompressedMatrix]


@dataclass(frozen=True)
class QuantizationReport:
    parameters: int
    bytes_before: int
    bytes_after: int


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


def compress(
    model: _Path,
    output: _Path,
    *,
    ratio: float,
    method: Method = "whitened",
    calibration: _Path | Sequence[_Path] = (),
    calibration_tokens: int = _native.DEFAULT_CALIBRATION_TOKENS,
    block: int = 128,
    align: Align = "nearest",
    only: Sequence[MatrixName] = _MATRICES,
    allocate: Allocate = "uniform",
    weights: Weights = "original",
    gram: _Path | None = None,
    save_gram: _Path | None = None,
    measure: bool = True,
    force: bool = False,
    num_threads: int | None = None,
    progress: bool = False,
) -> CompressionReport:
    """Writes the folder `output` with low-rank factors in place of the MLP weights of the folder `model`.

    ratio is the share of parameters to remove, ranks are multiples of `block`, calibration names text files; the
    rest is as `neuronmm compress` has it. An interrupted call keeps what it finished, and the same call goes on.
    """
    flags = _native.CompressFlags()
    flags.model, flags.output = os.fspath(model), os.fspath(output)
    flags.ratio = number("ratio", ratio, 0, 1)
    if flags.ratio in (0, 1):
        raise ValueError(f"ratio: expected a number between 0 and 1, found {ratio}")
    flags.block = whole_number("block", block, 1, 1 << 20)
    flags.method = one_of("method", method, get_args(Method))
    flags.align = one_of("align", align, get_args(Align))
    flags.allocate = one_of("allocate", allocate, get_args(Allocate))
    flags.weights = one_of("weights", weights, get_args(Weights))
    names = [only] if isinstance(only, str) else list(only)
    flags.only = ",".join(one_of("only", name, _MATRICES) for name in names)
    flags.calibration_tokens = whole_number("calibration_tokens", calibration_tokens, 1, 1 << 40)
    files = [calibration] if isinstance(calibration, (str, os.PathLike)) else list(calibration)
    _check_text(method, allocate, bool(files), gram is not None)
    flags.calibration = [os.fspath(file) for file in files]
    flags.gram = None if gram is None else os.fspath(gram)
    flags.save_gram = None if save_gram is None else os.fspath(save_gram)
    flags.measure, flags.force = bool(measure), bool(force)
    values = _native.compress(flags, thread_count(num_threads), bool(progress))
    values["measured"] = MeasuredLoss(**values["measured"]) if values["measured"] else None
    values["matrices"] = [CompressedMatrix(**matrix) for matrix in values["matrices"]]
    return CompressionReport(**values)


def _check_text(method: str, allocate: str, has_text: bool, has_gram: bool) -> None:
    if has_text:
        return
    if allocate == "sensitivity":
        raise ValueError("allocate sensitivity needs a calibration text, on which it measures every matrix")
    if method == "error-aware" or (method == "whitened" and not has_gram):
        other = "" if method == "error-aware" else " or gram"
        raise ValueError(f"method {method} needs a calibration text{other}; svd needs none")


def quantize(
    model: _Path, output: _Path, *, force: bool = False, num_threads: int | None = None, progress: bool = False
) -> QuantizationReport:
    """Writes the folder `output` with the weights of the folder `model`, dense or compressed, rounded to int8."""
    threads = thread_count(num_threads)
    return QuantizationReport(**_native.quantize(os.fspath(model), os.fspath(output), bool(force), threads, bool(progress)))


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
