#!/usr/bin/env python3
"""Completes a bill of materials that debsbom wrote, and prints nothing.

    packaging/complete_bom.py BOM.cdx.json PACKAGE

debsbom describes operating systems. PACKAGE is an application, and a wheel also contains nanobind, which comes from
PyPI. Its version is that of packaging/requirements.txt.
"""

import json
import pathlib
import re
import sys


def nanobind() -> dict[str, str]:
    text = (pathlib.Path(__file__).parent / "requirements.txt").read_text(encoding="utf-8")
    version = re.search(r"^nanobind==(\S+)$", text, re.MULTILINE)
    if not version:
        raise SystemExit("packaging/requirements.txt: expected a line nanobind==VERSION, found none")
    purl = f"pkg:pypi/nanobind@{version[1]}"
    return {"type": "library", "bom-ref": purl, "name": "nanobind", "version": version[1], "purl": purl}


def main() -> None:
    path, package = pathlib.Path(sys.argv[1]), sys.argv[2]
    bom = json.loads(path.read_text(encoding="utf-8"))
    bom["metadata"]["component"]["type"] = "application"
    if package.endswith(".whl"):
        added = nanobind()
        bom["components"].append(added)
        bom["components"].sort(key=lambda component: component["bom-ref"])
        bom.setdefault("dependencies", []).append({"ref": added["bom-ref"]})
    path.write_text(json.dumps(bom, indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
