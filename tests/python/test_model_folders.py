"""Folders are, byte for byte, those that the program writes."""

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
        ({"method": "svd", "measure": False}, "--method svd --block 128 --no-measure"),
        ({"calibration": CALIBRATION, "calibration_tokens": 4000}, f"--paper --calibration {CALIBRATION} --calibration-tokens 4000"),
        (
            {
                "method": "error-aware",
                "weights": "int8",
                "block": 64,
                "only": ["gate", "down"],
                "calibration": [CALIBRATION, str(DEMO / "evaluation.txt")],
                "calibration_tokens": 3000,
                "align": "floor",
            },
            f"--method error-aware --weights int8 --block 64 --only gate,down --align floor --calibration {CALIBRATION} "
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


def test_quantize(tmp_path: Path, program: Program) -> None:
    report = neuronmm.quantize(DEMO, tmp_path / "ours")
    (tmp_path / "there").mkdir()
    program("quantize", DEMO, "-o", tmp_path / "there" / "ours")
    assert_same(tmp_path / "ours", tmp_path / "there" / "ours")
    assert report.bytes_after < 0.6 * report.bytes_before
    with pytest.raises(neuronmm.Error, match="force=True replaces it"):
        neuronmm.quantize(DEMO, tmp_path / "ours")
    neuronmm.quantize(DEMO, tmp_path / "ours", force=True)


def test_import_gguf_refuses(tmp_path: Path) -> None:
    with pytest.raises(neuronmm.Error, match="README.md"):
        neuronmm.import_gguf(DEMO / "README.md", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
