"""Tests of `neuronmm serve` on the demo model with a chat template and the published OpenAI client."""

import asyncio
import json
import re
import signal
import ssl
import subprocess
import time
from typing import Literal

import httpx
import openai
import pydantic
import pytest
from served_demo import Served, demo_with

SCHEMA = {
    "type": "object",
    "properties": {"age": {"type": "integer", "minimum": 1, "maximum": 9}, "name": {"enum": ["Tom", "Lily"]}},
    "required": ["age", "name"],
    "additionalProperties": False,
}
ONCE = [{"role": "user", "content": "Once upon a time there was"}]


@pytest.fixture
def client(served):
    return openai.OpenAI(base_url=served.url + "/v1", api_key="secret", max_retries=0)


def test_models(client):
    assert [model.id for model in client.models.list()] == ["demo"]


def test_streamed_chat_equals_the_whole_answer(client):
    options = dict(model="demo", messages=ONCE, max_completion_tokens=30, temperature=0)
    whole = client.chat.completions.create(**options)
    assert whole.usage.completion_tokens == 30 and whole.choices[0].finish_reason == "length"
    chunks = list(client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage.total_tokens == whole.usage.total_tokens


def test_completions(client):
    whole = client.completions.create(
        model="demo", prompt=["Once", "The dog"], max_tokens=8, n=2, logprobs=2, echo=True, seed=3
    )
    assert [choice.index for choice in whole.choices] == [0, 1, 2, 3]
    assert whole.choices[2].text.startswith("The dog")
    assert len(whole.choices[0].logprobs.tokens) == len(whole.choices[0].logprobs.token_logprobs)
    chunks = client.completions.create(model="demo", prompt="Once", max_tokens=8, temperature=0, stream=True)
    again = client.completions.create(model="demo", prompt="Once", max_tokens=8, temperature=0)
    assert "".join(chunk.choices[0].text for chunk in chunks) == again.choices[0].text


def test_concurrent_async_requests(served):
    async def request_all():
        async with openai.AsyncOpenAI(base_url=served.url + "/v1", api_key="secret") as client:

            async def one(i):
                stream = await client.chat.completions.create(
                    model="demo", messages=ONCE, max_tokens=20, temperature=0, stream=True
                )
                return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

            return await asyncio.gather(*[one(i) for i in range(20)])

    answers = asyncio.run(request_all())
    assert len(set(answers)) == 1 and answers[0]


def test_structured_output(client):
    answer = client.chat.completions.create(
        model="demo",
        messages=ONCE,
        max_tokens=100,
        seed=1,
        response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}},
    )
    person = json.loads(answer.choices[0].message.content)
    assert set(person) == {"age", "name"} and 1 <= person["age"] <= 9 and person["name"] in ("Tom", "Lily")
    assert answer.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("stream", [False, True])
def test_tools(client, stream):
    tools = [{"type": "function", "function": {"name": "greet", "description": "greets", "parameters": SCHEMA}}]
    options = dict(
        model="demo", messages=ONCE, tools=tools, tool_choice="required", parallel_tool_calls=False, max_tokens=120, seed=2
    )
    if stream:
        with client.chat.completions.stream(**options) as events:
            choice = events.get_final_completion().choices[0]
    else:
        choice = client.chat.completions.create(**options).choices[0]
    (call,) = choice.message.tool_calls
    assert call.function.name == "greet" and set(json.loads(call.function.arguments)) == {"age", "name"}
    assert choice.finish_reason == "tool_calls"


def test_streamed_response_equals_the_whole_one(client):
    asked = dict(model="demo", instructions="Tell.", input="Once", max_output_tokens=12, temperature=0)
    whole = client.responses.create(**asked, top_logprobs=2)
    assert whole.status == "incomplete" and whole.incomplete_details.reason == "max_output_tokens"
    assert whole.usage.output_tokens == 12 and len(whole.output[0].content[0].logprobs) == 12
    streamed = ""
    with client.responses.stream(**asked) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                streamed += event.delta
    assert event.type == "response.incomplete"
    assert streamed == event.response.output_text == whole.output_text


def test_responses_with_structured_output_and_tools(client):
    class Child(pydantic.BaseModel):
        name: Literal["Tom", "Lily"]
        happy: bool

    parsed = client.responses.parse(model="demo", input="Who?", text_format=Child, max_output_tokens=64)
    assert isinstance(parsed.output_parsed, Child)
    with client.responses.stream(model="demo", input="Who?", text_format=Child, max_output_tokens=64) as stream:
        assert isinstance(stream.get_final_response().output_parsed, Child)
    tool = {
        "type": "function",
        "name": "find",
        "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    }
    asked = dict(model="demo", input=[{"role": "user", "content": "Find it."}], tools=[tool], tool_choice="required")
    asked |= dict(parallel_tool_calls=False, max_output_tokens=64, extra_body={"seed": 3})
    call = client.responses.create(**asked).output[0]
    assert call.type == "function_call" and call.name == "find" and isinstance(json.loads(call.arguments)["n"], int)
    streamed = [event for event in client.responses.create(**asked, stream=True)]
    (done,) = [event for event in streamed if event.type == "response.function_call_arguments.done"]
    assert done.arguments == call.arguments
    asked["input"] += [call, {"type": "function_call_output", "call_id": call.call_id, "output": "here"}]
    asked["tool_choice"] = "none"
    assert client.responses.create(**asked).output[0].type == "message"


def test_items_of_a_set_are_unique(client):
    class Bag(pydantic.BaseModel):
        colours: set[Literal["red", "green", "blue"]] = pydantic.Field(min_length=3)

    orders = set()
    for seed in range(12):
        answer = client.chat.completions.parse(
            model="demo", messages=ONCE, response_format=Bag, max_completion_tokens=250, temperature=2, seed=seed
        )
        colours = json.loads(answer.choices[0].message.content)["colours"]
        assert sorted(colours) == ["blue", "green", "red"]
        assert answer.choices[0].message.parsed.colours == set(colours)
        orders.add(tuple(colours))
    assert len(orders) > 1


@pytest.fixture
def plain_client(tmp_path):
    served = Served(demo_with("{% for m in messages %}{{ m.content }}\n{% endfor %}", tmp_path))
    yield openai.OpenAI(base_url=served.url + "/v1", api_key="x", max_retries=0)
    assert served.stop() == 0


def test_tools_with_a_template_that_ignores_them(plain_client):
    age = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
    tools = [{"type": "function", "function": {"name": name, "parameters": age}} for name in ("f", "g")]
    named = {"type": "function", "function": {"name": "g"}}
    for choice, names in (("required", "fg"), (named, "g")):
        options = dict(model="demo", tools=tools, parallel_tool_calls=False, temperature=0)
        said = plain_client.chat.completions.create(**options, messages=ONCE, tool_choice=choice).choices[0].message
        assert said.content is None and said.tool_calls[0].function.name in names
        assert json.loads(said.tool_calls[0].function.arguments)["a"] in (1, 2)
        result = {"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": "done"}
        asked = [*ONCE, said.model_dump(exclude_none=True), result]
        assert plain_client.chat.completions.create(**options, messages=asked, max_completion_tokens=5)
    for limit in (1, 2, 8):
        options = dict(model="demo", messages=ONCE, tools=tools, tool_choice=named, max_completion_tokens=limit)
        cut = plain_client.chat.completions.create(**options).choices[0]
        assert cut.finish_reason == "length" and cut.message.content is None
        assert cut.message.tool_calls[0].function.name == "g"


def test_logprobs(client):
    answer = client.chat.completions.create(
        model="demo", messages=ONCE, max_tokens=5, logprobs=True, top_logprobs=3, temperature=0
    )
    tokens = answer.choices[0].logprobs.content
    assert len(tokens) == 5
    for token in tokens:
        assert len(token.top_logprobs) == 3 and token.logprob == token.top_logprobs[0].logprob <= 0


def test_errors_have_the_exception_types_of_the_client(client, served):
    with pytest.raises(openai.NotFoundError) as error:
        client.chat.completions.create(model="gpt-4", messages=ONCE)
    assert error.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model="demo", messages=[{"role": "user", "content": "x" * 20000}])
    assert error.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model="demo", messages=ONCE, temperature=-1)
    assert error.value.param == "temperature"
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=served.url + "/v1", api_key="wrong").models.list()


def test_closed_stream_ends_its_request(client, served):
    with client.completions.create(
        model="demo", prompt="Once", max_tokens=480, stream=True, extra_body={"ignore_eos": True}
    ) as stream:
        next(iter(stream))
    headers = {"Authorization": "Bearer secret"}
    for _ in range(100):
        text = httpx.get(served.url + "/metrics", headers=headers).text
        if re.search(r"^vllm:num_requests_running\{.*\} 0$", text, re.MULTILINE):
            return
        time.sleep(0.02)
    pytest.fail("the answer ran on")


def test_tls(folder, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2"]
        + ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True,
        capture_output=True,
    )
    served = Served(folder, "--tls-cert", str(cert), "--tls-key", str(key))
    with httpx.Client(verify=ssl.create_default_context(cafile=str(cert))) as http:
        client = openai.OpenAI(base_url=served.url + "/v1", api_key="none", http_client=http)
        chunks = client.completions.create(model="demo", prompt="Once", max_tokens=30, stream=True)
        assert len(list(chunks)) >= 20
    assert served.stop() == 0


def test_shutdown_finishes_running_requests(folder):
    served = Served(folder)
    client = openai.OpenAI(base_url=served.url + "/v1", api_key="none")
    stream = client.completions.create(
        model="demo", prompt="Once", max_tokens=480, stream=True, extra_body={"ignore_eos": True}
    )
    chunks = iter(stream)
    next(chunks)
    served.process.send_signal(signal.SIGTERM)
    assert list(chunks)[-1].choices[0].finish_reason == "length"
    assert served.process.wait(timeout=30) == 0


def test_zero_shutdown_timeout_cancels_running_requests(folder):
    served = Served(folder, "--shutdown-timeout", "0", "--threads", "1")
    client = openai.OpenAI(base_url=served.url + "/v1", api_key="none")
    stream = client.completions.create(
        model="demo", prompt="Once", n=64, max_tokens=480, stream=True, extra_body={"ignore_eos": True}
    )
    chunks = iter(stream)
    next(chunks)
    served.process.send_signal(signal.SIGTERM)
    with pytest.raises((openai.APIError, httpx.HTTPError)):
        list(chunks)
    assert served.process.wait(timeout=30) == 1


def test_second_signal_cancels_running_requests(folder):
    served = Served(folder, "--threads", "1")
    client = openai.OpenAI(base_url=served.url + "/v1", api_key="none", max_retries=0)
    stream = client.completions.create(
        model="demo", prompt="Once", n=128, max_tokens=480, stream=True, extra_body={"ignore_eos": True}
    )
    chunks = iter(stream)
    next(chunks)
    served.process.send_signal(signal.SIGINT)
    while httpx.get(served.url + "/ready").status_code == 200:
        time.sleep(0.01)
    assert served.process.poll() is None
    served.process.send_signal(signal.SIGTERM)
    with pytest.raises(openai.APIError, match="stopped"):
        list(chunks)
    assert served.process.wait(timeout=10) == 1
