"""Tests that the package writes the same model folders as the program, byte for byte."""

import filecmp
from pathlib import Path
from typing import Any

import pytest
from conftest import DEMO, Program

import neuronmm

CALIBRATION = DEMO / "calibration.txt"


def assert_same(left: Path, right: Path) -> None:
    names = sorted(path.name for path in left.iterdir())
    assert names == sorted(path.name for path in right.iterdir()) and "model.safetensors" in names
    assert filecmp.cmpfiles(left, right, names, shallow=False) == (names, [], [])


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({"method": "svd", "measure": False}, "--method svd --no-measure"),
        (
            {"method": "svd", "bits": 4, "group": 32, "lm_head_bits": 8, "measure": False},
            "--method svd --bits 4 --group 32 --lm-head-bits 8 --no-measure",
        ),
        (
            {"form": "uv", "block": 128, "calibration": CALIBRATION, "calibration_tokens": 4000},
            f"--paper --calibration {CALIBRATION} --calibration-tokens 4000",
        ),
        (
            {
                "form": "uv",
                "bits": 8,
                "block": 64,
                "calibration": [CALIBRATION, str(DEMO / "evaluation.txt")],
                "calibration_tokens": 3000,
            },
            f"--form uv --bits 8 --block 64 --calibration {CALIBRATION} "
            f"--calibration {DEMO / 'evaluation.txt'} --calibration-tokens 3000",
        ),
    ],
)
def test_compress(tmp_path: Path, program: Program, options: dict[str, Any], flags: str) -> None:
    ours, theirs = tmp_path / "ours" / "model", tmp_path / "theirs" / "model"
    ours.parent.mkdir()
    theirs.parent.mkdir()
    report = neuronmm.compress(DEMO, ours, ratio=0.2, **options)
    program("compress", DEMO, "-o", theirs, "--ratio", 0.2, *flags.split())
    assert_same(ours, theirs)
    assert report.parameters_after < report.parameters_before and len(report.matrices) == 12
    assert (report.measured is not None) == ("calibration" in options)
    assert neuronmm.LLM(ours).perplexity(file=DEMO / "evaluation.txt").perplexity < 200


@pytest.mark.parametrize(
    ("options", "flags", "form"),
    [
        ({"method": "whitened"}, "--method whitened", None),
        ({"form": "narrow", "method": "whitened"}, "--form narrow --method whitened", "narrow"),
        ({"form": "pivoted", "method": "whitened"}, "--form pivoted --method whitened", "pivoted"),
        (
            {"form": "neurons", "method": "whitened", "allocate": "uniform", "bits": 8},
            "--form neurons --method whitened --allocate uniform --bits 8",
            "neurons",
        ),
        (
            {"form": "neurons", "method": "whitened", "allocate": "measured", "pad": True},
            "--form neurons --method whitened --allocate measured --pad",
            "neurons",
        ),
        ({"form": "mixed", "method": "whitened"}, "--form mixed --method whitened", "mixed"),
        ({"form": "uv", "method": "whitened", "allocate": "predicted"}, "--form uv --method whitened --allocate predicted", "uv"),
    ],
)
def test_compress_forms(tmp_path: Path, program: Program, options: dict[str, Any], flags: str, form: str | None) -> None:
    ours, theirs = tmp_path / "ours" / "model", tmp_path / "theirs" / "model"
    ours.parent.mkdir()
    theirs.parent.mkdir()
    text: dict[str, Any] = {"calibration": CALIBRATION, "calibration_tokens": 3000, "measure": False}
    report = neuronmm.compress(DEMO, ours, ratio=0.3, **text, **options)
    more = f"--calibration {CALIBRATION} --calibration-tokens 3000 --no-measure {flags}"
    program("compress", DEMO, "-o", theirs, "--ratio", 0.3, *more.split())
    assert_same(ours, theirs)
    assert report.form == form or (form is None and report.form in ("mixed", "pivoted"))
    assert report.matrices == [] and [layer.layer for layer in report.layers] == list(range(4))
    assert all(0 < layer.kept_share <= 1 for layer in report.layers)


def test_saved_statistics_are_reused(tmp_path: Path) -> None:
    saved = tmp_path / "statistics"
    text: dict[str, Any] = {"calibration": CALIBRATION, "calibration_tokens": 3000}
    options: dict[str, Any] = {"form": "mixed", "method": "whitened", "ratio": 0.3, "measure": False}
    neuronmm.compress(DEMO, tmp_path / "one", **text, **options, statistics=saved)
    neuronmm.compress(DEMO, tmp_path / "two", **text, **options, statistics=saved)
    assert filecmp.cmp(tmp_path / "one" / "model.safetensors", tmp_path / "two" / "model.safetensors", shallow=False)
    report = neuronmm.compress(DEMO, tmp_path / "three", **options, statistics=saved)
    assert 2900 < report.calibration_tokens <= 3000 and report.measured is None
    with pytest.raises(neuronmm.Error, match=r"no statistics\.json"):
        neuronmm.compress(DEMO, tmp_path / "four", **options, statistics=tmp_path / "one")


def test_self_generated_calibration(tmp_path: Path, program: Program) -> None:
    options: dict[str, Any] = {"form": "mixed", "method": "whitened", "ratio": 0.3, "self_generated": 1500}
    report = neuronmm.compress(DEMO, tmp_path / "ours", **options)
    assert report.calibration_tokens == 1500 and report.measured is not None and not report.measured.held_out
    flags = "--form mixed --method whitened --ratio 0.3 --self-generated 1500 --no-measure"
    program("compress", DEMO, "-o", tmp_path / "theirs", *flags.split())
    assert filecmp.cmp(tmp_path / "ours" / "model.safetensors", tmp_path / "theirs" / "model.safetensors", shallow=False)


def test_two_sided_saves_its_metric(tmp_path: Path) -> None:
    text: dict[str, Any] = {"calibration": CALIBRATION, "calibration_tokens": 3000, "measure": False}
    neuronmm.compress(DEMO, tmp_path / "out", ratio=0.3, statistics=tmp_path / "statistics", **text)
    assert (tmp_path / "statistics" / "metric.safetensors").exists()


def test_quantize(tmp_path: Path, program: Program) -> None:
    report = neuronmm.quantize(DEMO, tmp_path / "ours")
    (tmp_path / "there").mkdir()
    program("quantize", DEMO, "-o", tmp_path / "there" / "ours")
    assert_same(tmp_path / "ours", tmp_path / "there" / "ours")
    assert report.bytes_after < 0.6 * report.bytes_before
    with pytest.raises(neuronmm.Error, match="force=True replaces it"):
        neuronmm.quantize(DEMO, tmp_path / "ours")
    neuronmm.quantize(DEMO, tmp_path / "ours", force=True)


def test_quantize_to_4_bits_with_calibration(tmp_path: Path, program: Program) -> None:
    report = neuronmm.quantize(DEMO, tmp_path / "ours", bits=4, group=32, calibration=CALIBRATION, calibration_tokens=600)
    assert report.calibration_tokens == 600
    assert report.bytes_after < 0.3 * report.bytes_before
    (tmp_path / "there").mkdir()
    text = ("--calibration", CALIBRATION, "--calibration-tokens", "600")
    program("quantize", DEMO, "-o", tmp_path / "there" / "ours", "--bits", "4", "--group", "32", *text)
    assert_same(tmp_path / "ours", tmp_path / "there" / "ours")
    assert report.reconstruction is None
    few = {"bits": 4, "calibration": CALIBRATION, "calibration_tokens": 600}
    learnt = neuronmm.quantize(DEMO, tmp_path / "learnt", **few, reconstruct=600).reconstruction
    assert learnt is not None and learnt.tokens <= 600
    assert all(layer.error_after <= layer.error_before for layer in learnt.layers)
    for wrong in ({"bits": 5}, {"group": 16}, {"rounding": "gptq"}, {"smoothing": True}, {"reconstruct": 1000}):
        with pytest.raises(ValueError):
            neuronmm.quantize(DEMO, tmp_path / "wrong", **wrong)
    with pytest.raises(ValueError, match="no use"):
        neuronmm.quantize(DEMO, tmp_path / "wrong", calibration=CALIBRATION, rounding="nearest", smoothing=False)
    assert not (tmp_path / "wrong").exists()


def test_import_gguf_rejects_other_files(tmp_path: Path) -> None:
    with pytest.raises(neuronmm.Error, match="README.md"):
        neuronmm.import_gguf(DEMO / "README.md", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
