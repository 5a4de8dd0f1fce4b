import pytest
from served_demo import Served, demo_with

# A template whose model writes calls as {"name": ..., "parameters": {...}}, as Llama 3 does. The
# demo model cannot call tools by itself. The tests demand a document that is a call in this syntax.
TEMPLATE = (
    '{# <|start_header_id|> {"name": "f", "parameters": {}} #}'
    "{% if tools %}{{ tools | tojson }}\n{% endif %}"
    "{% for m in messages %}{{ m.content }}{% for call in m.tool_calls or [] %}{{ call | tojson }}{% endfor %}\n"
    "{% endfor %}"
)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return demo_with(TEMPLATE, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def url(folder):
    served = Served(folder)
    yield served.url
    assert served.stop() == 0
