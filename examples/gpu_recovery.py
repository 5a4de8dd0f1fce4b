#!/usr/bin/env python3
"""Trains a folder that `neuronmm compress` wrote on a GPU, as `neuronmm finetune` does on a CPU.

    examples/gpu_recovery.py SMALL TEACHER TEXT OUT [--tokens 2000000] [--learning-rate 2e-5]

SMALL learns the predictions of TEACHER, the model before compression, on TEXT, which is plain text
or .jsonl with a "text" in every line. All weights of the layers are trained by AdamW, and the
divergence from the teacher is the only loss. A 32nd of the text is held out, and the state with the
least divergence on it is written to OUT: the same tensors in the same dtypes, which neuronmm reads.

Needs torch, transformers and safetensors from PyPI. Without a GPU it runs on the CPU, slowly.
SMALL has code of neuronmm for transformers, which this program runs.
"""

import argparse
import json
import math
import pathlib
import random
import shutil
import sys
import time

try:
    import safetensors
    import safetensors.torch
    import torch
    import torch.nn.functional as F
    from transformers import AutoModelForCausalLM, AutoTokenizer
except ImportError as error:
    sys.exit(f"{error}; gpu_recovery.py needs: pip install torch transformers safetensors")

ROWS = 512  # of logits that exist together
MEASUREMENTS = 10


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("small", type=pathlib.Path, metavar="SMALL", help="folder that compress wrote")
    parser.add_argument("teacher", type=pathlib.Path, metavar="TEACHER", help="folder of the model before compression")
    parser.add_argument("text", type=pathlib.Path, metavar="TEXT", help="plain text, or .jsonl with a \"text\" in every line")
    parser.add_argument("out", type=pathlib.Path, metavar="OUT", help="folder to write, which must not exist")
    parser.add_argument("--tokens", type=int, default=2_000_000,
                        help="tokens to train on, in several passes over TEXT if it has fewer (default %(default)s)")
    parser.add_argument("--learning-rate", type=float, default=2e-5, help="largest rate (default %(default)s)")
    parser.add_argument("--batch", type=int, default=4, help="sequences in a step (default %(default)s)")
    parser.add_argument("--cutoff", type=int, default=512, help="tokens of a sequence (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the order of the sequences (default %(default)s)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu",
                        help="PyTorch device (default cuda if there is one, else cpu)")
    return parser.parse_args()


def sequences(path, tokenizer, length):
    """Returns the text in pieces of `length` tokens, and every 32nd of them apart."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        text = "\n\n".join(json.loads(line)["text"] for line in text.splitlines() if line.strip())
    ids = tokenizer(text, return_tensors="pt", verbose=False).input_ids[0]
    pieces = list(ids.split(length))
    if len(pieces) > 1 and len(pieces[-1]) < length:
        pieces.pop()
    if len(pieces) < 2:
        sys.exit(f"{path}: expected two sequences of {length} tokens or more, found {len(ids)} tokens; use a smaller --cutoff")
    held_out = pieces[::32]
    return [piece for i, piece in enumerate(pieces) if i % 32 != 0], held_out


def divergence(student, teacher, ids, device, scale=None):
    """Returns the sum of KL(teacher || student) over the tokens, and adds its gradient times
    `scale`. Logits exist for some rows at a time, so their gradient is taken in two steps.
    """
    precision = torch.autocast(device, torch.bfloat16, enabled=device == "cuda")
    with torch.no_grad(), precision:
        wanted = teacher.model(ids).last_hidden_state[:, :-1].flatten(0, 1)
    with torch.set_grad_enabled(scale is not None), precision:
        hidden = student.model(ids).last_hidden_state[:, :-1].flatten(0, 1)
    leaf = hidden.detach().requires_grad_(scale is not None)
    total = 0.0
    for rows, wanted_rows in zip(leaf.split(ROWS), wanted.split(ROWS)):
        with torch.set_grad_enabled(scale is not None), precision:
            own = F.log_softmax(student.lm_head(rows).float(), -1)
            with torch.no_grad():
                target = F.log_softmax(teacher.lm_head(wanted_rows).float(), -1)
            loss = F.kl_div(own, target, reduction="sum", log_target=True)
        total += loss.item()
        if scale is not None:
            (loss * scale).backward()
    if scale is not None:
        hidden.backward(leaf.grad)
    return total


def held_out_divergence(student, teacher, held_out, device):
    total = sum(divergence(student, teacher, piece[None].to(device), device) for piece in held_out)
    return total / sum(len(piece) - 1 for piece in held_out)


def rate_at(largest, step, steps):
    warm_up = min(100, steps // 10)
    return largest * ((step + 1) / warm_up if step < warm_up else (steps - step) / (steps - warm_up))


def train(student, teacher, pieces, held_out, args):
    """Leaves the state in the student that is the best on the held-out text."""
    trained = [(name, value) for name, value in student.named_parameters() if ".layers." in name]
    student.requires_grad_(False)
    for _, value in trained:
        value.requires_grad_(True)
    optimizer = torch.optim.AdamW([value for _, value in trained], weight_decay=0.0)
    steps = max(1, args.tokens // (args.batch * args.cutoff))
    interval = max(1, math.ceil(steps / MEASUREMENTS))
    least = before = held_out_divergence(student, teacher, held_out, args.device)
    best = {name: value.detach().cpu().clone() for name, value in trained}
    print(f"before training: held-out divergence {least:.4f}", flush=True)
    order, started = [], time.time()
    for step in range(steps):
        while len(order) < args.batch:
            order += random.sample(range(len(pieces)), len(pieces))
        batch, order = [pieces[i] for i in order[: args.batch]], order[args.batch :]
        count = sum(len(piece) - 1 for piece in batch)
        optimizer.zero_grad(set_to_none=True)
        loss = divergence(student, teacher, torch.stack(batch).to(args.device), args.device, 1 / count) / count
        norm = torch.nn.utils.clip_grad_norm_([value for _, value in trained], 1.0)
        if torch.isfinite(norm):
            optimizer.param_groups[0]["lr"] = rate_at(args.learning_rate, step, steps)
            optimizer.step()
        else:
            print(f"step {step + 1}: skipped, because its gradient is NaN or infinite")
        if (step + 1) % interval != 0 and step + 1 != steps:
            continue
        now = held_out_divergence(student, teacher, held_out, args.device)
        speed = (step + 1) * args.batch * args.cutoff / (time.time() - started)
        print(f"step {step + 1} of {steps}: held-out divergence {now:.4f}, {loss:.4f} in training, {speed:.0f} tokens/s", flush=True)
        if now < least:
            least, best = now, {name: value.detach().cpu().clone() for name, value in trained}
    if least == before:
        print(f"no state was better than the first one, so the weights stay; try --learning-rate {args.learning_rate / 3:.1g}")
    student.load_state_dict(best, strict=False)
    return best


def partial_of(out):
    """Returns the folder that becomes OUT once it is complete."""
    return out.with_name(out.name + ".partial")


def write(small, out, trained):
    """Copies the folder with other values of the trained tensors."""
    partial = partial_of(out)
    shutil.copytree(small, partial)
    found = set()
    for path in partial.glob("*.safetensors"):
        with safetensors.safe_open(path, "pt") as file:
            metadata = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}
        for name in tensors.keys() & trained.keys():
            tensors[name] = trained[name].to(tensors[name].dtype).contiguous()
            found.add(name)
        safetensors.torch.save_file(tensors, path, metadata)
    missing = trained.keys() - found
    if missing:
        sys.exit(f"{small}: expected tensor {sorted(missing)[0]}, which transformers trained, found none")
    partial.rename(out)


def main():
    args = arguments()
    for path in (args.small / "config.json", args.teacher / "config.json", args.text):
        if not path.is_file():
            sys.exit(f"{path}: expected a file, found none")
    for path in (args.out, partial_of(args.out)):
        if path.exists():
            sys.exit(f"{path}: exists already; remove it, or choose another output")
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    tokenizer = AutoTokenizer.from_pretrained(args.small)
    student = AutoModelForCausalLM.from_pretrained(args.small, trust_remote_code=True, dtype=torch.float32).to(args.device)
    teacher_dtype = torch.bfloat16 if args.device == "cuda" else torch.float32
    teacher = AutoModelForCausalLM.from_pretrained(args.teacher, dtype=teacher_dtype).to(args.device)
    if teacher.config.vocab_size != student.config.vocab_size:
        sys.exit(f"{args.teacher}: expected {student.config.vocab_size} tokens as in {args.small}, found {teacher.config.vocab_size}")
    student.config.use_cache = teacher.config.use_cache = False
    pieces, held_out = sequences(args.text, tokenizer, args.cutoff)
    print(f"{len(pieces)} sequences to train on, {len(held_out)} held out, on {args.device}", flush=True)
    write(args.small, args.out, train(student.eval(), teacher.eval(), pieces, held_out, args))
    print(f"written to {args.out}")


if __name__ == "__main__":
    main()
