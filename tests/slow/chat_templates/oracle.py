"""Templates through jinja2 as transformers sets it up, and through our interpreter."""

import copy
import json
import subprocess

from transformers.utils import chat_template_utils

NOW = 1753000000  # 2025-07-20: what strftime_now shows in both


class FixedClock:
    @staticmethod
    def now():
        import datetime

        return datetime.datetime.fromtimestamp(NOW)


chat_template_utils.datetime = FixedClock


def expected(template, context):
    """The text, or None where jinja2 raises anything."""
    try:
        compiled = chat_template_utils._compile_jinja_template(template)
        text = compiled.render(**copy.deepcopy(context))
        text.encode()
        return text, None
    except Exception as error:  # noqa: BLE001: an error is an answer
        return None, f"{type(error).__name__}: {error}"


class Ours:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def render(self, template, context):
        request = json.dumps({"template": template, "context": context, "now": NOW})
        self.process.stdin.write(request.encode() + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the interpreter died on {request}")
        answer = json.loads(answer)
        return answer.get("text"), answer.get("error")
