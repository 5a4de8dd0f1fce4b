"""Tests the page as `neuronmm serve` serves it, with the bundled model and a chat template."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
import urllib.request

from selenium.webdriver.common.keys import Keys

from browser import PageTest
from dashboard import metrics_of_dashboard

PROGRAM = pathlib.Path(os.environ.get("NEURONMM_PROGRAM", "build/release/neuronmm"))
TEMPLATE = "{% for message in messages %}{{ message.content }}\n{% endfor %}"


def can_serve():
    return PROGRAM.exists() and subprocess.run([PROGRAM, "serve", "--help"], capture_output=True, check=False).returncode == 0


class Program:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        model = pathlib.Path(self.folder.name) / "demo"
        shutil.copytree("models/demo", model)
        config = json.loads((model / "tokenizer_config.json").read_text())
        (model / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": TEMPLATE}))
        self.process = subprocess.Popen([PROGRAM, "serve", model, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.url = self.address()

    def address(self):
        output = ""
        for line in self.process.stdout:
            output += line
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            if found:
                return found[0]
        raise RuntimeError(f"neuronmm serve told no address: {output}")

    def reset(self):
        pass

    def shutdown(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)

    def server_close(self):
        self.folder.cleanup()


@unittest.skipUnless(can_serve(), f"{PROGRAM} has no `serve`")
class Real(PageTest):
    @classmethod
    def start_server(cls):
        return Program()

    def setUp(self):
        super().setUp()
        self.wait(lambda: "demo" in self.text("#server"), "the model", 60)

    def test_a_conversation(self):
        self.named("Settings").click()
        self.one("#setting-max_tokens").send_keys("24")
        self.one("#setting-temperature").send_keys("0")
        self.named("Save").click()
        self.submit_and_wait("Once upon a time")
        self.assertRegex(self.text(".answer .stats"), r"^24 tokens · [\d,.]+ tokens/s · first after .* · prompt \d+ tokens.* — Ended at the limit")
        first = self.answer()
        self.named("Regenerate").click()
        self.wait(lambda: self.idle() and self.answer(), "the answer again")
        self.assertEqual(first, self.answer())
        self.picture("real")

    def test_stop(self):
        # The model finishes in a tenth of a second. A slow line leaves time to stop it.
        slow = {"offline": False, "latency": 0, "downloadThroughput": 4000, "uploadThroughput": -1}
        self.driver.execute_cdp_cmd("Network.emulateNetworkConditions", slow)
        self.addCleanup(self.driver.execute_cdp_cmd, "Network.emulateNetworkConditions", slow | {"downloadThroughput": -1})
        self.type("Once upon a time" + Keys.ENTER)
        self.wait(lambda: not self.idle() and self.answer(), "some words")
        self.keys(Keys.ESCAPE)
        self.wait(self.idle, "the stop")
        self.assertIn("Stopped.", self.text(".answer .stats"))

    def test_error_is_shown(self):
        self.submit_and_wait("word " * 2000)
        self.expected_errors = ("400",)
        self.assertIn("512", self.text(".failure"))

    def test_model_and_metrics(self):
        self.one("#tab-model").click()
        self.assertIn("demo", self.text("#facts"))
        self.wait(lambda: "running 0" in self.text("#plots"), "plots")
        self.picture("real_model")

    def test_metrics_of_the_dashboard_exist(self):
        with urllib.request.urlopen(f"{self.server.url}/metrics") as response:
            there = set(re.findall(r"^# TYPE (\S+)", response.read().decode(), re.MULTILINE))
        asked = {re.sub(r"_(bucket|sum|count)$", "", name) for name in metrics_of_dashboard()}
        self.assertEqual(set(), asked - there)
