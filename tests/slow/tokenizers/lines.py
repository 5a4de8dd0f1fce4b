"""Wraps the program tokenizer_lines, which answers requests on its standard input."""

import json
import subprocess


class Ours:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"tokenizer_lines ended with {self.process.wait()} at {str(request)[:2000]}")
        return json.loads(line)

    def load(self, path):
        return self.ask(load=str(path)).get("error")

    def run(self, texts, special=True):
        answer = self.ask(texts=texts, special=special)
        return answer["ids"], answer["text"], answer["streamed"]
