#!/usr/bin/env python3
"""Tests docs/reference/grafana_dashboard.json: the file parses, its panels do not overlap, its expressions are
valid PromQL, and its metrics are those of the table in docs/reference/metrics.md."""
import json
import pathlib
import re
import sys

import promql_parser

ROOT = pathlib.Path(__file__).resolve().parents[3]
PREFIX = "${prefix}"


def dashboard():
    return json.loads((ROOT / "docs/reference/grafana_dashboard.json").read_text())


def expressions():
    return [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", [])]


def metrics_of_dashboard(prefix="vllm:"):
    return {name.replace(PREFIX, prefix) for text in expressions() for name in re.findall(r"\$\{prefix\}\w+", text)}


def documented():
    return set(re.findall(r"^\| `(\w+)", (ROOT / "docs/reference/metrics.md").read_text(), re.MULTILINE))


def problems():
    board = dashboard()
    if board["schemaVersion"] < 39:
        yield f"schemaVersion: expected 39 (Grafana 10.3) or later, found {board['schemaVersion']}"
    variables = {variable["name"] for variable in board["templating"]["list"]}
    if used := set(re.findall(r"\$\{?(?!__)(\w+)", json.dumps(board["panels"]))) - variables:
        yield f"variables that are not defined: {sorted(used)}"
    ids = [panel["id"] for panel in board["panels"]]
    if len(set(ids)) != len(ids):
        yield "panels: ids occur twice"
    cells = [(x, y) for panel in board["panels"] for at in [panel["gridPos"]]
             for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])]
    if len(set(cells)) != len(cells) or any(x >= 24 for x, _ in cells):
        yield "panels: they overlap, or reach beyond 24 columns"
    for text in expressions():
        filled = text.replace(PREFIX, "vllm:").replace("$__rate_interval", "1m")
        try:
            promql_parser.parse(re.sub(r"\$\w+", ".*", filled))
        except ValueError as error:
            yield f"expression {text!r}: {error}"
    for name in metrics_of_dashboard(prefix=""):
        if name not in documented() and re.sub(r"_(bucket|sum|count)$", "", name) not in documented():
            yield f"metric {name}: expected a row in docs/reference/metrics.md"


if __name__ == "__main__":
    found = list(problems())
    print("\n".join(found) or f"{len(expressions())} expressions, {len(metrics_of_dashboard())} metrics")
    sys.exit(bool(found))
