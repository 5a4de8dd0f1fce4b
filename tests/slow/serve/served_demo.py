"""Runs `neuronmm serve` on the demo model with a chat template, for the tests of this folder."""

import json
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "build/release/neuronmm"
TEMPLATE = (
    "{% if tools %}<tool_call>{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}\n{% endfor %}"
)


def demo_with(template, place):
    folder = place / "demo"
    shutil.copytree(ROOT / "models/demo", folder)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


class Served:
    def __init__(self, folder, *flags):
        self.process = subprocess.Popen(
            [PROGRAM, "serve", folder, "--port", "0", *flags], stdout=subprocess.PIPE, text=True
        )
        self.url = re.fullmatch(r"listening on (https?://\S+)\n", self.process.stdout.readline())[1]
        for _ in range(200):
            if httpx.get(self.url + "/ready", verify=False).status_code == 200:
                return
            time.sleep(0.05)
        raise TimeoutError("the model was not loaded")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)
