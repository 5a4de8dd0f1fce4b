"""Tests of `neuronmm serve` with the published clients of Ollama."""

import asyncio

import httpx
import pytest

QUESTION = "Once upon a time there was"
ASKED = [{"role": "user", "content": QUESTION}]
FEW = {"num_predict": 8, "temperature": 0}
# A document that is a call of the tool below.
CALL = {
    "type": "object",
    "properties": {
        "name": {"enum": ["get_weather"]},
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Paris"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
    "required": ["name", "parameters"],
    "additionalProperties": False,
}


def get_weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: which one
    """
    return f"sun in {city}"


def length(vector):
    return sum(value * value for value in vector) ** 0.5


@pytest.fixture
def client(url):
    import ollama

    return ollama.Client(host=url)


def test_ollama_describes_the_model(client):
    assert [model.model for model in client.list().models] == ["demo:latest"]
    assert client.ps().models[0].model == "demo:latest"
    shown = client.show("demo")
    assert shown.modelinfo["llama.embedding_length"] == 384
    assert {"completion", "tools", "embedding"} <= set(shown.capabilities)


def test_ollama_streams_equal_whole_answers(client):
    whole = client.chat("demo", ASKED, options=FEW)
    assert whole.done_reason == "length" and whole.eval_count == 8 and whole.prompt_eval_count > 0
    parts = list(client.chat("demo:latest", ASKED, stream=True, options=FEW))
    assert "".join(part.message.content for part in parts) == whole.message.content
    assert [part.done for part in parts[-2:]] == [False, True]
    first = client.generate("demo", QUESTION, options=FEW)
    texts = [part.response for part in client.generate("demo", QUESTION, stream=True, options=FEW)]
    assert first.response and "".join(texts) == first.response
    again = client.generate("demo", "And then", context=first.context, options=FEW)
    assert again.prompt_eval_count > first.prompt_eval_count


def test_ollama_async(url):
    import ollama

    async def ask():
        client = ollama.AsyncClient(host=url)
        answers = await asyncio.gather(*[client.chat("demo", ASKED, options=FEW) for _ in range(8)])
        parts = [part async for part in await client.chat("demo", ASKED, stream=True, options=FEW)]
        return {answer.message.content for answer in answers}, "".join(part.message.content for part in parts)

    answers, streamed = asyncio.run(ask())
    assert answers == {streamed}


@pytest.mark.parametrize("stream", [False, True])
def test_ollama_has_rounds_of_tools(client, stream):
    messages = list(ASKED)
    for _ in range(3):
        answer = client.chat("demo", messages, tools=[get_weather], format=CALL, options={"temperature": 0}, stream=stream)
        message = [part.message for part in answer if part.message.tool_calls][0] if stream else answer.message
        [call] = message.tool_calls
        assert call.function.name == "get_weather" and call.function.arguments == {"city": "Paris"}
        messages += [message, {"role": "tool", "tool_name": "get_weather", "content": get_weather("Paris")}]
    final = client.chat("demo", messages, tools=[get_weather], options=FEW)
    assert final.message.content and not final.message.tool_calls


def test_ollama_formats(client):
    import json

    schema = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["age"]}
    answer = client.chat("demo", ASKED, format=schema, options={"temperature": 0})
    assert 1 <= json.loads(answer.message.content)["age"] <= 9


def test_ollama_embeds(client):
    one = client.embed("demo", "The dog")
    two = client.embed("demo", ["The dog", "A cat"])
    assert two.embeddings[0] == one.embeddings[0] and two.embeddings[1] != one.embeddings[0]
    assert length(one.embeddings[0]) == pytest.approx(1, abs=1e-5)
    assert two.prompt_eval_count > one.prompt_eval_count
    old = client.embeddings("demo", "The dog").embedding
    assert [value / length(old) for value in old] == pytest.approx(list(one.embeddings[0]), abs=1e-5)
    short = client.embed("demo", "The dog", dimensions=16).embeddings[0]
    assert len(short) == 16 and length(short) == pytest.approx(1, abs=1e-5)


def test_ollama_errors(client):
    import ollama

    for ask, status in [
        (lambda: client.chat("large", ASKED), 404),
        (lambda: client.chat("demo", ASKED, options={"temprature": 1}), 400),
        (lambda: client.chat("demo", ASKED, think=True), 400),
        (lambda: client.embed("demo", []), 400),
        (lambda: client.pull("demo"), 501),
        (lambda: client.delete("demo"), 501),
        (lambda: client.create("demo", from_="other"), 501),
    ]:
        with pytest.raises(ollama.ResponseError) as raised:
            ask()
        assert raised.value.status_code == status and raised.value.error


def test_ollama_loads_and_unloads(client):
    assert client.generate("demo").done_reason == "load"
    assert client.generate("demo", keep_alive=0).done_reason == "unload"
    assert client.chat("demo", []).done_reason == "load"


def test_curl_as_it_is_typed(url):
    import json
    import subprocess

    body = '{"model": "demo", "prompt": "Why?", "options": {"num_predict": 4}}'
    lines = subprocess.check_output(["curl", "--silent", f"{url}/api/generate", "-d", body], text=True).splitlines()
    assert json.loads(lines[-1])["done"] and len(lines) > 1
    assert httpx.head(url).status_code == 200 and httpx.get(url).status_code == 200


def test_langchain(url):
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_ollama import ChatOllama, OllamaEmbeddings, OllamaLLM

    chat = ChatOllama(model="demo", base_url=url, temperature=0, num_predict=8, validate_model_on_init=True)
    whole = chat.invoke(QUESTION)
    assert whole.content and whole.usage_metadata["output_tokens"] == 8
    assert "".join(part.content for part in chat.stream(QUESTION)) == whole.content
    caller = ChatOllama(model="demo", base_url=url, temperature=0, format=CALL).bind_tools([get_weather])
    called = caller.invoke(QUESTION)
    assert called.tool_calls[0]["name"] == "get_weather" and called.tool_calls[0]["args"] == {"city": "Paris"}
    result = ToolMessage("sun", tool_call_id=called.tool_calls[0]["id"])
    assert caller.invoke([HumanMessage(QUESTION), called, result]).tool_calls
    assert OllamaLLM(model="demo", base_url=url, temperature=0, num_predict=8).invoke(QUESTION)
    vectors = OllamaEmbeddings(model="demo", base_url=url).embed_documents(["The dog", "A cat"])
    assert OllamaEmbeddings(model="demo", base_url=url).embed_query("The dog") == vectors[0] != vectors[1]


def test_langchain_embeds_many_documents(url):
    from langchain_ollama import OllamaEmbeddings

    documents = [f"The dog {i % 10}" for i in range(1500)]
    vectors = OllamaEmbeddings(model="demo", base_url=url).embed_documents(documents)
    assert len(vectors) == 1500 and vectors[11] == vectors[1] != vectors[2]


def test_llama_index(url):
    from llama_index.core.llms import ChatMessage
    from llama_index.core.tools import FunctionTool
    from llama_index.embeddings.ollama import OllamaEmbedding
    from llama_index.llms.ollama import Ollama

    settings = dict(model="demo", base_url=url, context_window=512, request_timeout=60)
    model = Ollama(**settings, temperature=0, additional_kwargs={"num_predict": 8})
    asked = [ChatMessage(role="user", content=QUESTION)]
    whole = model.chat(asked).message.content
    assert whole and list(model.stream_chat(asked))[-1].message.content == whole
    assert model.complete(QUESTION).text and list(model.stream_complete(QUESTION))[-1].text
    caller = Ollama(**settings, temperature=0)
    tool = FunctionTool.from_defaults(get_weather).metadata.to_openai_tool()
    answer = caller.chat(asked, tools=[tool], format=CALL)
    calls = caller.get_tool_calls_from_response(answer)
    assert calls[0].tool_name == "get_weather" and calls[0].tool_kwargs.keys() == {"city"}
    embedding = OllamaEmbedding(model_name="demo", base_url=url)
    vectors = embedding.get_text_embedding_batch(["The dog", "A cat"])
    assert embedding.get_text_embedding("The dog") == vectors[0] != vectors[1]


@pytest.mark.parametrize("route", ["ollama_chat/demo", "ollama/demo"])
def test_litellm_by_ollamas_protocol(url, route):
    import litellm

    options = dict(model=route, messages=ASKED, api_base=url, temperature=0, max_tokens=8)
    whole = litellm.completion(**options)
    assert whole.choices[0].message.content and whole.usage.completion_tokens == 8
    parts = litellm.completion(**options, stream=True)
    assert "".join(part.choices[0].delta.content or "" for part in parts) == whole.choices[0].message.content
    vectors = litellm.embedding(model="ollama/demo", input=["The dog", "A cat"], api_base=url).data
    assert length(vectors[0]["embedding"]) == pytest.approx(1, abs=1e-5)
    with pytest.raises(litellm.NotFoundError):
        litellm.completion(**options | {"model": route.replace("demo", "large")})


def test_litellm_calls_tools(url):
    import litellm

    tool = {"type": "function", "function": {"name": "get_weather", "parameters": CALL["properties"]["parameters"]}}
    shape = {"type": "json_schema", "json_schema": {"name": "call", "schema": CALL}}
    messages = list(ASKED)
    for _ in range(2):
        answer = litellm.completion(
            model="ollama_chat/demo", messages=messages, tools=[tool], response_format=shape, api_base=url, temperature=0
        )
        message = answer.choices[0].message
        assert message.tool_calls[0].function.name == "get_weather"
        messages += [message, {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sun"}]


def test_litellm_by_openais_protocol(url):
    import litellm

    options = dict(model="openai/demo", messages=ASKED, api_base=url + "/v1", api_key="none", temperature=0, max_tokens=8)
    whole = litellm.completion(**options).choices[0].message.content
    parts = litellm.completion(**options, stream=True)
    assert whole and "".join(part.choices[0].delta.content or "" for part in parts) == whole
    vectors = litellm.embedding(model="openai/demo", input=["The dog"], api_base=url + "/v1", api_key="none").data
    assert len(vectors[0]["embedding"]) == 384


def test_langchain_by_openais_protocol(url):
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    server = dict(model="demo", base_url=url + "/v1", api_key="none")
    chat = ChatOpenAI(**server, temperature=0, max_tokens=8)
    whole = chat.invoke(QUESTION)
    assert whole.content and whole.usage_metadata["output_tokens"] == 8
    assert "".join(part.content for part in chat.stream(QUESTION)) == whole.content
    caller = ChatOpenAI(**server, temperature=0).bind_tools([get_weather], tool_choice="required")
    called = caller.invoke(QUESTION)
    assert called.tool_calls[0]["name"] == "get_weather" and called.tool_calls[0]["args"].keys() == {"city"}
    results = [ToolMessage("sun", tool_call_id=call["id"]) for call in called.tool_calls]
    assert chat.invoke([HumanMessage(QUESTION), called, *results]).content
    # The client would otherwise send token ids of OpenAI's own vocabulary.
    embeddings = OpenAIEmbeddings(**server, check_embedding_ctx_length=False)
    vectors = embeddings.embed_documents(["The dog", "A cat"])
    assert embeddings.embed_query("The dog") == vectors[0] != vectors[1]


def test_openai_embeds(url):
    import openai

    client = openai.OpenAI(base_url=url + "/v1", api_key="none")
    answer = client.embeddings.create(model="demo", input=["The dog", "A cat"])  # in base64
    numbers = client.embeddings.create(model="demo", input="The dog", encoding_format="float")
    assert answer.data[0].embedding == pytest.approx(numbers.data[0].embedding, abs=1e-7)
    assert answer.usage.total_tokens > 2
    with pytest.raises(openai.BadRequestError) as raised:
        client.embeddings.create(model="demo", input=[])
    assert raised.value.body["param"] == "input"
