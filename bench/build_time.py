#!/usr/bin/env python3
"""Builds a target from a fresh folder and prints the processor time of every CMake target and of the longest
translation units.

    bench/build_time.py                                   what ./demo.sh builds
    bench/build_time.py -D NEURONMM_TESTS=ON --target all what ./test.sh builds

Every command of the compiler and the linker runs through this script, which reads its processor time (user and system)
from the operating system. The numbers hardly depend on what else the machine does; they grow by a tenth or more where
two hardware threads share a core.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

RECORD = "NEURONMM_BUILD_TIME_RECORD"


def run_command(command):
    """Runs one command of the build and appends its processor time to the record, if one is kept."""
    code = subprocess.call(command)
    if RECORD not in os.environ:  # a later build in the same folder
        return code
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = command[command.index("-o") + 1] if "-o" in command else command[-1]
    line = {"output": output, "seconds": usage.ru_utime + usage.ru_stime, "megabytes": usage.ru_maxrss / 1024}
    # A short line that is written at once is not mixed with the lines of other processes.
    with open(os.environ[RECORD], "ab", buffering=0) as record:
        record.write(json.dumps(line).encode() + b"\n")
    return code


def target_of(output):
    """The CMake target that an output belongs to, and whether a command compiles it (or links the target)."""
    inside = re.search(r"CMakeFiles/([^/]+)\.dir/", output)
    return (inside.group(1), True) if inside else (pathlib.Path(output).name, False)


def read_record(path):
    commands = [json.loads(line) for line in path.read_text().splitlines()]
    for command in commands:
        command["target"], command["compiles"] = target_of(command["output"])
    return commands


def print_targets(commands):
    totals = collections.defaultdict(lambda: [0.0, 0, 0.0])
    for command in commands:
        total = totals[command["target"]]
        if command["compiles"]:
            total[0] += command["seconds"]
            total[1] += 1
        else:
            total[2] += command["seconds"]
    print(f"{'target':32} {'compile s':>10} {'units':>6} {'link s':>8}")
    for target, (compile_s, units, link_s) in sorted(totals.items(), key=lambda item: -item[1][0] - item[1][2]):
        print(f"{target:32} {compile_s:10.1f} {units:6} {link_s:8.1f}")


def print_longest(commands, count):
    print(f"\n{'longest translation units':72} {'s':>7} {'MB':>6}")
    for command in sorted(commands, key=lambda c: -c["seconds"])[:count]:
        print(f"{command['output'][-72:]:72} {command['seconds']:7.1f} {command['megabytes']:6.0f}")


def build(arguments, folder, record):
    source = pathlib.Path(__file__).resolve().parent.parent
    launcher = f"{sys.executable};-S;-E;{pathlib.Path(__file__).resolve()};--run"
    environment = {**os.environ, RECORD: str(record)}
    definitions = [f"-D{definition}" for definition in arguments.define]
    subprocess.run(
        ["cmake", "-S", source, "-B", folder, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}",
         f"-DCMAKE_CXX_LINKER_LAUNCHER={launcher}", *definitions],
        check=True, env=environment, stdout=subprocess.DEVNULL)
    record.write_bytes(b"")  # without the compiler checks of the configuration
    begin = time.monotonic()
    subprocess.run(["cmake", "--build", folder, "--target", *arguments.target, "-j", str(arguments.jobs)],
                   check=True, env=environment, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--run":
        sys.exit(run_command(sys.argv[2:]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", nargs="+", default=["neuronmm"], help="targets to build (default: neuronmm)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="commands at a time (default: all cores)")
    parser.add_argument("--folder", type=pathlib.Path, help="an empty build folder to keep (default: a temporary one)")
    parser.add_argument("--longest", type=int, default=20, help="translation units to list (default: 20)")
    parser.add_argument("-D", dest="define", action="append", default=[], metavar="NAME=VALUE",
                        help="a CMake cache variable, as in cmake -D")
    arguments = parser.parse_args()
    if arguments.folder and arguments.folder.exists() and any(arguments.folder.iterdir()):
        parser.error(f"--folder {arguments.folder}: expected an empty folder, found files in it")
    with tempfile.TemporaryDirectory(prefix="neuronmm_build_") as temporary:
        record = pathlib.Path(temporary) / "record"
        wall_s = build(arguments, arguments.folder or pathlib.Path(temporary) / "build", record)
        commands = read_record(record)
    print_targets(commands)
    print_longest(commands, arguments.longest)
    total = sum(command["seconds"] for command in commands)
    print(f"\n{total:.0f} s of processor time ({total / 60:.1f} min), {wall_s:.0f} s of wall time"
          f" with {arguments.jobs} commands at a time")


if __name__ == "__main__":
    main()
