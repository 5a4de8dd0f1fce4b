"""Tests of `neuronmm serve` on the demo model with the published Anthropic client."""

import asyncio
import json
from typing import Literal

import anthropic
import pydantic
import pytest

ONCE = [{"role": "user", "content": "Once upon a time there was"}]
FIND = {
    "name": "find",
    "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
}


@pytest.fixture
def client(served):
    return anthropic.Anthropic(base_url=served.url, api_key="secret", max_retries=0)


def test_streamed_message_equals_the_whole_one(client):
    asked = dict(model="demo", system="Tell.", messages=ONCE, max_tokens=20, extra_body={"temperature": 0})
    whole = client.messages.create(**asked)
    assert whole.stop_reason == "max_tokens" and whole.usage.output_tokens == 20
    with client.messages.stream(**asked) as stream:
        streamed = "".join(stream.text_stream)
        end = stream.get_final_message()
    assert streamed == whole.content[0].text == end.content[0].text
    assert end.stop_reason == "max_tokens" and end.usage.output_tokens == 20
    counted = client.messages.count_tokens(model="demo", system="Tell.", messages=ONCE).input_tokens
    assert counted == whole.usage.input_tokens + whole.usage.cache_read_input_tokens


def test_every_event_has_the_fields_of_its_type(client):
    adapter = pydantic.TypeAdapter(anthropic.types.RawMessageStreamEvent)
    asked = dict(model="demo", messages=ONCE, max_tokens=64, tools=[FIND], tool_choice={"type": "any"})
    for event in client.messages.create(**asked, stream=True):
        adapter.validate_python(event.model_dump(), strict=False)


def test_tool_use(client):
    asked = dict(model="demo", max_tokens=64, tools=[FIND], tool_choice={"type": "tool", "name": "find"})
    call = client.messages.create(**asked, messages=ONCE, extra_body={"seed": 3})
    (block,) = call.content
    assert call.stop_reason == "tool_use" and block.name == "find" and isinstance(block.input["n"], int)
    with client.messages.stream(**asked, messages=ONCE, extra_body={"seed": 3}) as stream:
        assert stream.get_final_message().content[0].input == block.input
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": block.id, "content": "here"}]}
    asked["tool_choice"] = {"type": "none"}
    said = [*ONCE, {"role": "assistant", "content": call.content}, result]
    assert client.messages.create(**asked, messages=said).content[0].type == "text"


def test_structured_output(client):
    class Child(pydantic.BaseModel):
        name: Literal["Tom", "Lily"]
        happy: bool

    parsed = client.messages.parse(model="demo", messages=ONCE, max_tokens=64, output_format=Child)
    assert isinstance(parsed.parsed_output, Child)


def test_stop_sequences_and_prefilled_answers(client):
    asked = dict(model="demo", max_tokens=60, extra_body={"temperature": 0})
    stopped = client.messages.create(**asked, messages=ONCE, stop_sequences=["girl"])
    assert stopped.stop_reason == "stop_sequence" and stopped.stop_sequence == "girl"
    begun = [{"role": "user", "content": "Tell."}, {"role": "assistant", "content": "Once upon a time"}]
    assert client.messages.create(**asked, messages=begun).content[0].text.startswith(",")


def test_concurrent_async_requests(served):
    async def all_of_them():
        client = anthropic.AsyncAnthropic(base_url=served.url, auth_token="secret")
        asked = dict(model="demo", messages=ONCE, max_tokens=20, extra_body={"temperature": 0})
        return await asyncio.gather(*(client.messages.create(**asked) for _ in range(20)))

    assert len({json.dumps(answer.content[0].text) for answer in asyncio.run(all_of_them())}) == 1


def test_errors_have_the_exception_types_of_the_client(client, served):
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(model="claude", messages=ONCE, max_tokens=5)
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long: [0-9]+ tokens > 511 maximum"):
        client.messages.create(model="demo", messages=[{"role": "user", "content": "a " * 2000}], max_tokens=5)
    with pytest.raises(anthropic.BadRequestError, match=r"content\[0\].type: expected"):
        image = {"type": "image", "source": {"type": "url", "url": "http://example.org/a.png"}}
        client.messages.create(model="demo", messages=[{"role": "user", "content": [image]}], max_tokens=5)
    with pytest.raises(anthropic.AuthenticationError):
        anthropic.Anthropic(base_url=served.url, api_key="wrong").messages.create(
            model="demo", messages=ONCE, max_tokens=5
        )
