"""Renders templates with jinja2, as transformers configures it, and with neuronmm's interpreter."""

import copy
import json
import subprocess

from transformers.utils import chat_template_utils

NOW = 1753000000  # 2025-07-20, the time that strftime_now has on both sides


# Replaces the class datetime in transformers, so that strftime_now gives a fixed time.
class FixedClock:
    @staticmethod
    def now():
        import datetime

        return datetime.datetime.fromtimestamp(NOW)


chat_template_utils.datetime = FixedClock


def expected(template, context):
    """Renders a template with jinja2. Returns the text and None, or None and the error's message.
    """
    try:
        compiled = chat_template_utils._compile_jinja_template(template)
        text = compiled.render(**copy.deepcopy(context))
        # Fails for texts that UTF-8 cannot represent.
        text.encode()
        return text, None
    except Exception as error:  # noqa: BLE001: an error is a result, too
        return None, f"{type(error).__name__}: {error}"


# Renders templates with the program render_lines, which runs as a child process.
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
