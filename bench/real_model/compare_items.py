"""Compares the requests and choices of lm-evaluation-harness with those of `neuronmm eval
--log-samples`, item by item.

    compare_items.py HARNESS_OUTPUT_DIR NEURONMM_SAMPLES
"""

import collections
import glob
import json
import sys


def harness_items(folder):
    """Returns (task, doc) -> (requests, log-likelihoods, acc)."""
    items = {}
    for path in glob.glob(f"{folder}/**/samples_local_*.jsonl", recursive=True):
        task = path.split("samples_local_")[1].rsplit("_", 1)[0]
        with open(path, encoding="utf-8") as file:
            for sample in map(json.loads, file):
                arguments = sample["arguments"]
                requests = [[a["arg_0"], a["arg_1"]] for a in (arguments[k] for k in sorted(arguments))]
                scores = [float(r[0]) for r in sample["filtered_resps"]]
                items[task, sample["doc_id"]] = requests, scores, sample["acc"]
    return items


def main():
    theirs = harness_items(sys.argv[1])
    counts = collections.defaultdict(collections.Counter)
    with open(sys.argv[2], encoding="utf-8") as file:
        for sample in map(json.loads, file):
            task = sample["task"]
            count = counts[task]
            requests, scores, acc = theirs.pop((task, sample["doc_id"]))
            own = sample["log_likelihoods"]
            count["items"] += 1
            count["same requests"] += requests == sample["arguments"]
            count["same choice"] += scores.index(max(scores)) == own.index(max(own))
            count["harness"] += acc
            count["neuronmm"] += sample["acc"]
            count["difference"] = max(count["difference"], *(abs(a - b) for a, b in zip(scores, own)))
    print("task            items  same requests  same choice  acc harness  acc neuronmm  largest difference of log-likelihoods")
    for task, c in counts.items():
        print(f"{task:14} {c['items']:6} {c['same requests']:14} {c['same choice']:12} {c['harness'] / c['items']:12.4f}"
              f" {c['neuronmm'] / c['items']:13.4f} {c['difference']:21.1e}")
    assert not theirs, f"only in the harness: {len(theirs)} items"


main()
