"""Writes golden_sampling.json: the probabilities with which tokens are drawn, computed in fp64 by transformers' logits
processors in the order of transformers 5.23 (GenerationMixin._get_logits_processor). transformers has no processors
for presence and frequency. These penalties follow the formula of OpenAI's API reference and come between repetition
penalty and temperature, as in vLLM.
pip install torch transformers==4.46.3; python make_golden_sampling.py > golden_sampling.json"""

import json

import torch
from transformers.generation import logits_process as lp

TOKENS = 24
PROMPT, GENERATED = [0, 3, 3, 11], [5, 3, 5, 5, 20]
CASES = [
    {"temperature": 1.0},
    {"temperature": 0.35},
    {"temperature": 2.5},
    {"temperature": 1.0, "top_k": 5},
    {"temperature": 1.0, "top_k": 1},
    {"temperature": 1.0, "top_p": 0.7},
    {"temperature": 1.0, "top_p": 0.2},
    {"temperature": 1.0, "min_p": 0.15},
    {"temperature": 2.0, "min_p": 0.3},
    {"temperature": 1.0, "min_p": 1.0},
    {"temperature": 1.0, "repetition_penalty": 1.7},
    {"temperature": 1.0, "repetition_penalty": 0.6},
    {"temperature": 1.0, "frequency_penalty": 0.8},
    {"temperature": 1.0, "frequency_penalty": -0.5},
    {"temperature": 1.0, "presence_penalty": 1.5},
    {"temperature": 1.0, "presence_penalty": -2.0},
    {"temperature": 1.0, "logit_bias": [[7, 4.5], [0, -100.0], [5, -0.25]]},
    {"temperature": 0.9, "repetition_penalty": 1.3, "frequency_penalty": 0.4, "presence_penalty": 0.6},
    {"temperature": 0.8, "logit_bias": [[3, 2.0], [20, -3.0]], "repetition_penalty": 1.5},
    {"temperature": 1.8, "top_k": 9, "top_p": 0.8},
    {"temperature": 1.8, "top_p": 0.9, "min_p": 0.25},
    {"temperature": 1.5, "top_k": 7, "top_p": 0.95, "min_p": 0.2},
    {"temperature": 1.4, "top_k": 12, "top_p": 0.85, "min_p": 0.1, "repetition_penalty": 1.2,
     "presence_penalty": 0.3, "frequency_penalty": 0.2, "logit_bias": [[1, 1.5], [9, -1.0], [3, 0.5]]},
]


def probabilities(logits, case):
    scores = torch.tensor([logits], dtype=torch.float64)
    ids = torch.tensor([PROMPT + GENERATED])
    if "logit_bias" in case:
        bias = {(token,): value for token, value in case["logit_bias"]}
        scores = lp.SequenceBiasLogitsProcessor(bias)(ids, scores)
    if "repetition_penalty" in case:
        scores = lp.RepetitionPenaltyLogitsProcessor(case["repetition_penalty"])(ids, scores)
    counts = torch.bincount(torch.tensor(GENERATED), minlength=TOKENS).double()
    scores = scores - case.get("frequency_penalty", 0.0) * counts
    scores = scores - case.get("presence_penalty", 0.0) * (counts > 0).double()
    if case["temperature"] != 1.0:
        scores = lp.TemperatureLogitsWarper(case["temperature"])(ids, scores)
    if "top_k" in case:
        scores = lp.TopKLogitsWarper(case["top_k"])(ids, scores)
    if "top_p" in case:
        scores = lp.TopPLogitsWarper(case["top_p"])(ids, scores)
    if "min_p" in case:
        scores = lp.MinPLogitsWarper(case["min_p"])(ids, scores)
    return torch.softmax(scores, -1)[0].tolist()


torch.manual_seed(1)
logits = (torch.randn(TOKENS) * 1.6).tolist()
golden = {"prompt": PROMPT, "generated": GENERATED, "logits": logits,
          "log_probabilities": torch.log_softmax(torch.tensor(logits, dtype=torch.float64), -1).tolist(),
          "cases": [{"options": case, "probabilities": probabilities(logits, case)} for case in CASES]}
print("{" + ",\n".join(f'"{key}": ' + ("[\n" + ",\n".join(map(json.dumps, value)) + "]" if key == "cases"
                                       else json.dumps(value)) for key, value in golden.items()) + "}")
