"""Has a conversation with `neuronmm serve` in oterm, a full-screen terminal program for Ollama. oterm lists
the models by Ollama's protocol and chats by OpenAI's under the name that it got."""

import json
import os
import sys
import time
from pathlib import Path

import pexpect
import pyte

ROWS, COLUMNS = 45, 150


class Terminal:
    """A terminal whose screen can be read."""

    def __init__(self, program, environment):
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.stream = pyte.ByteStream(self.screen)
        self.process = pexpect.spawn(program, env=environment, dimensions=(ROWS, COLUMNS))

    def text(self):
        return "\n".join(self.screen.display)

    def wait_for(self, found, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                self.stream.feed(self.process.read_nonblocking(65536, timeout=0.2))
            except pexpect.TIMEOUT:
                pass
            if found(self.text()):
                return
        raise AssertionError(self.text())

    def click(self, label):
        row = next(i for i, line in enumerate(self.screen.display) if label in line)
        place = f"{self.screen.display[row].index(label) + 2};{row + 1}"
        self.press(f"\x1b[<0;{place}M\x1b[<0;{place}m")

    def press(self, keys):
        time.sleep(0.3)  # the program redraws between two keys
        self.process.send(keys)


def test_a_conversation_works(url, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"splash-screen": False}))
    environment = os.environ | {
        "OLLAMA_URL": url, "OTERM_DATA_DIR": str(tmp_path), "TERM": "xterm-256color", "COLORTERM": "truecolor",
    }
    terminal = Terminal(str(Path(sys.executable).parent / "oterm"), environment)
    terminal.wait_for(lambda text: "new chat" in text)
    terminal.press("\x0e")  # Ctrl-N: a new chat
    terminal.wait_for(lambda text: "Temperature" in text and "demo:latest" in text)
    terminal.press("\t")  # from the provider to the model
    terminal.press("demo:latest")
    terminal.press("\x1b[B")  # to the list
    terminal.press("\r")
    terminal.wait_for(lambda text: "Size: 0.01 GB" in text)
    terminal.click("Save")
    terminal.wait_for(lambda text: "chat #1 - demo:latest" in text)
    for question in ["Once upon a time there was", "Then the dog"]:
        terminal.press(question)
        terminal.press("\r")
        terminal.wait_for(lambda text: question in text and answer_after(text, question))
    terminal.press("\x11")  # Ctrl-Q
    terminal.process.expect(pexpect.EOF)


def answer_after(text, question):
    """Returns whether words of the model stand below the question and above the prompt's line."""
    lines = text.splitlines()
    first = max(i for i, line in enumerate(lines) if question in line)
    words = " ".join(lines[first + 1 : -3]).split()
    return sum(word.strip(".,!\"'").isalpha() for word in words) > 8
