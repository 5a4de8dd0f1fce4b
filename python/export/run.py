"""Compiles the exported model, generates text with it, or compares its latency with that of the
dense model. Nobody has run this script on a Trainium yet.

    python run.py compile                            compiles once; needs no Trainium
    python run.py generate "The color of the sky is"
    python run.py benchmark --dense ORIGINAL         writes benchmark_report.json
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys

from common import HERE, MODEL, installed, latency_report, read_export, require_writable

import engine

RESULT_PREFIX = "neuronmm-result "  # begins the line in which a child process reports its result


def add_mode(parser, choices, default):
    parser.add_argument("--mode", choices=choices, default=default, help=f"where the model runs (default {default})")


def add_runs(parser):
    parser.add_argument("--runs", type=int, default=11, help="timed requests after a warm-up (default 11)")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    add_mode(commands.add_parser("compile", help="compile the model"), ("compile", "device"), "compile")
    generate = commands.add_parser("generate", help="continue a prompt")
    generate.add_argument("prompt", help="text to continue")
    generate.add_argument("--new-tokens", type=int, default=32, help="number of tokens to generate (default 32)")
    add_mode(generate, ("cpu", "device"), "device")
    benchmark = commands.add_parser("benchmark", help="time all models and write a report")
    benchmark.add_argument("--dense", type=model_folder, help="folder of the model that was compressed; times it, too")
    add_runs(benchmark)
    add_mode(benchmark, ("cpu", "device"), "device")
    benchmark.add_argument("--output", type=pathlib.Path, default=HERE / "benchmark_report.json",
                           help="file to write the report to (default benchmark_report.json next to this script)")  # fmt: skip
    time = commands.add_parser("time", help="time one model in this process; benchmark runs this command")
    time.add_argument("model", type=pathlib.Path, help="folder of the model")
    add_runs(time)
    add_mode(time, ("cpu", "device"), "device")
    return parser.parse_args()


def run_and_capture(arguments, environment, timeout):
    """Returns (everything that a process and its children have printed, its exit status).

    All of them are killed together on a timeout or an interrupt. An engine is a process of its own,
    which would otherwise keep the pipe open and the core occupied.
    """
    command = [sys.executable, *map(str, arguments)]
    with subprocess.Popen(command, cwd=HERE, env=environment, start_new_session=True, text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:  # fmt: skip
        try:
            return process.communicate(timeout=timeout)[0], process.wait()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise


def run_process(arguments, mode, device, kernels=False, timeout=None):
    """Runs a script of this folder with these arguments and returns the last object that it
    reports.

    Each model has a process of its own, because a core belongs to the process that took it, and
    because the SDK reads the environment only once.
    """
    environment = os.environ | engine.environment(mode, device) | engine.kernel_environment(kernels)
    what = " ".join(map(str, arguments))
    try:
        output, status = run_and_capture(arguments, environment, timeout)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{what}: not done after {timeout:.0f} s; --timeout gives it more") from None
    results = [line for line in output.splitlines() if line.startswith(RESULT_PREFIX)]
    if status != 0 or not results:
        killed = " (killed: compilers take 32 GB and more for large models)" if status == -signal.SIGKILL else ""
        raise RuntimeError(f"{what}: exit status {status}{killed}:\n{output[-2000:]}")
    return json.loads(results[-1].removeprefix(RESULT_PREFIX))


def report(result):
    print(RESULT_PREFIX + json.dumps(result), flush=True)


def variants(dense):
    """Returns [(name, folder, whether kernels are used)] of all models to time."""
    found = [("factored", MODEL, False)]
    if (HERE / "kernels" / "kernels.json").exists():
        found.append(("factored_with_kernels", MODEL, True))
    return ([("dense", dense, False)] if dense else []) + found


def model_folder(path):
    """Returns the folder of a model for argparse. A wrong folder is refused before anything is
    compiled.
    """
    folder = pathlib.Path(path).resolve()
    if not (folder / "config.json").is_file():
        raise argparse.ArgumentTypeError(f"expected the folder of a model, with its config.json, found {path}")
    return folder


def benchmark(export, options):
    require_writable(options.output)
    measured = {}
    for name, folder, kernels in variants(options.dense):
        flags = ["--runs", options.runs, "--mode", options.mode]
        measured[name] = run_process(["run.py", "time", folder, *flags], options.mode, export["device"], kernels)
        row = measured[name]
        print(f"{name:22} prefill {row['context_encoding_model']['latency_ms_p50']:10.3f} ms, "
              f"a token {row['token_generation_model']['latency_ms_p50']:8.3f} ms")  # fmt: skip
    report_object = {"export": export, "mode": options.mode, "models": measured, "versions": installed(engine.DISTRIBUTIONS)}
    options.output.write_text(json.dumps(report_object, indent=2) + "\n")
    print(f"written to {options.output}")


def main():
    options, export = arguments(), read_export()
    if options.command == "benchmark":
        return benchmark(export, options)
    if options.command != "time":  # the parent process of "time" has set it
        os.environ |= engine.environment(options.mode, export["device"])
    if options.command == "time":
        model = engine.Engine(export, options.model, options.mode)
        return report(latency_report(model, export["prompt_tokens"], export["new_tokens"], options.runs))
    model = engine.Engine(export, MODEL, options.mode)
    print("compiled" if options.command == "compile" else model.text(options.prompt, options.new_tokens))


if __name__ == "__main__":
    main()
