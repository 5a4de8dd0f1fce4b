"""Starts commands on the hosts of tools/network_hosts.sh and observes them from outside."""
import os
import pathlib
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("NEURONMM", str(ROOT / "build/release/neuronmm"))
SCRIPT = str(ROOT / "tools/network_hosts.sh")


def network(*words):
    return subprocess.run([SCRIPT, *map(str, words)], check=True, capture_output=True, text=True).stdout


def up(count, rate, delay=None):
    network("up", count, rate, *([delay] if delay else []))


def command(processes, words):
    """Returns a neuronmm command line for `processes` hosts, or for this machine if there is one
    process.
    """
    own = [PROGRAM, *map(str, words), "--threads", "1"]
    return own if processes == 1 else [SCRIPT, "mpirun", str(processes), *own]


def output_of(processes, words, timeout_s=300):
    done = subprocess.run(command(processes, words), capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, (processes, words, done.stdout[-500:], done.stderr[-2000:])
    return done.stdout


def sent_again(host):
    """Returns the number of bytes that TCP on a host sent again. Packets count as whole ones of
    1,514 bytes.
    """
    counted = network("on", host, "nstat", "-asz", "TcpRetransSegs")
    return 1514 * int(counted.split()[-2])


def sent_bytes(hosts):
    """Returns for each host the bytes that it has sent so far, without what was sent again."""
    return [int(network("bytes", f"nmm-{i}")) - sent_again(f"nmm-{i}") for i in range(hosts)]


def programs_of(host, name="neuronmm"):
    """Returns the ids of the processes with this program name on a host."""
    ids = subprocess.run(["ip", "netns", "pids", host], capture_output=True, text=True, check=True).stdout.split()
    return [int(i) for i in ids if name_of(i) == name]


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def cable(host, state):
    """Pulls the cable of a host (`state` is "down") or plugs it in ("up")."""
    subprocess.run(["ip", "link", "set", host, state], check=True)


class Running:
    """A command that runs while something happens to its hosts."""

    def __init__(self, processes, words, log):
        self.log = pathlib.Path(log)
        self.start = time.monotonic()
        with self.log.open("w") as file:
            self.process = subprocess.Popen(command(processes, words), stdout=file, stderr=subprocess.STDOUT,
                                            start_new_session=True)

    def wait_for(self, said, timeout_s):
        end = time.monotonic() + timeout_s
        while said not in self.text():
            assert time.monotonic() < end, f"expected \"{said}\" within {timeout_s} s, found: {self.text()[-2000:]}"
            time.sleep(0.02)

    def text(self):
        return self.log.read_text()

    def end(self, timeout_s):
        """Waits for the end and returns the exit code. A command that does not end in time is
        killed, and the result is None.
        """
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            return None
