#!/usr/bin/env bash
# Tests the files of deploy/. systemd must accept the unit and rate its confinement as good. The
# image's health check must distinguish a server that answers from one that does not, and Docker must
# get every file that the installation reads. Building the image needs Docker and is done by hand.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly work=build/deploy
mkdir -p $work

if command -v systemd-analyze >/dev/null; then
  # Replaces the program and removes the manual page, because neither need be installed on this
  # machine.
  sed -e 's#^ExecStart=/usr/bin/neuronmm#ExecStart=/bin/true#' -e '/^Documentation=/d' deploy/neuronmm.service >$work/neuronmm.service
  problems=$(systemd-analyze verify $work/neuronmm.service 2>&1) || true  # its exit status is 0 for most problems
  [ -z "$problems" ] || { echo "$problems" >&2; exit 1; }
  systemd-analyze security --offline=true --threshold=20 $work/neuronmm.service | tail -n 1
else
  echo "skipped: no systemd-analyze"
fi

python3 - <<'PYTHON'
import fnmatch
import http.server
import json
import pathlib
import re
import subprocess
import threading

# `cmake --install` and cpack end with an error if one of these is missing.
install = pathlib.Path("cmake/install.cmake").read_text()
read = {path for paths in re.findall(r"install\((?:DIRECTORY|FILES) ((?:[\w./-]+ )+)", install) for path in paths.split()}
read = {path for path in read if pathlib.Path(path).exists()}
assert {"models/demo", "examples/kernel"} <= read, read
ignored = pathlib.Path("deploy/Dockerfile.dockerignore").read_text().split()
for path in read:
    kept = path
    for pattern in ignored:  # the last pattern that fits a path or a folder above it decides
        if any(fnmatch.fnmatch(str(part), pattern.lstrip("!")) for part in [path, *pathlib.Path(path).parents][:-1]):
            kept = path if pattern.startswith("!") else ""
    assert kept, f"deploy/Dockerfile.dockerignore: expected {path} to be kept, found it excluded"
print(f"Docker gets the {len(read)} paths that are installed")

text = pathlib.Path("deploy/Dockerfile").read_text().replace("\\\n", "")
command = json.loads(re.search(r"^HEALTHCHECK .* CMD (\[.*\])$", text, re.MULTILINE)[1])
unit = pathlib.Path("deploy/neuronmm.service").read_text()
timeout, stop = (int(re.search(pattern, unit, re.MULTILINE)[1]) for pattern in (r"--shutdown-timeout (\d+)", r"^TimeoutStopSec=(\d+)"))
assert stop > timeout, "systemd kills the service before it has drained"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        assert self.path == "/health"
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_):
        pass


def healthy(port):
    return subprocess.run([word.replace("/8000", f"/{port}") for word in command], capture_output=True, check=False).returncode == 0


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
for server.status in (200, 503, 404):
    assert healthy(server.server_address[1]) == (server.status == 200), server.status
server.shutdown()
server.server_close()
assert not healthy(server.server_address[1])
print("the health check tells 200, 503, 404 and nobody apart")
PYTHON
