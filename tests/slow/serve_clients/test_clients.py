"""Tests of `neuronmm serve` on the demo model with client libraries. The environment has the
server's address."""

import asyncio
import os
from typing import Annotated, Literal

import openai
import pydantic
import pytest

URL = os.environ["OPENAI_BASE_URL"]
QUESTION = "Once upon a time there was a city"


class City(pydantic.BaseModel):
    """A city."""

    name: str = pydantic.Field(max_length=12)
    country: Literal["France", "Italy"]
    population: int = pydantic.Field(ge=0, le=99_999)
    tags: Annotated[list[Literal["big", "old"]], pydantic.Field(max_length=2)]


def weather(city: Literal["Paris", "Rome"]) -> str:
    """The weather of a city.

    Args:
        city: which one
    """
    return "sun"


def test_litellm():
    import litellm

    asked = [{"role": "user", "content": QUESTION}]
    options = {"messages": asked, "api_base": URL, "api_key": "none", "temperature": 0}
    whole = litellm.completion(model="openai/demo", **options | {"max_tokens": 8}).choices[0].message.content
    parts = litellm.completion(model="openai/demo", stream=True, **options | {"max_tokens": 8})
    assert whole and "".join(part.choices[0].delta.content or "" for part in parts) == whole
    held = litellm.completion(model="hosted_vllm/demo", response_format=City, **options)
    assert City.model_validate_json(held.choices[0].message.content)
    assert litellm.text_completion(
        model="text-completion-openai/demo", prompt="Once", max_tokens=4, logprobs=2, api_base=URL, api_key="none"
    ).choices[0].text
    with pytest.raises(litellm.NotFoundError):
        litellm.completion(model="openai/large", **options)
    with pytest.raises(litellm.ContextWindowExceededError):
        litellm.completion(model="openai/demo", **options | {"messages": [{"role": "user", "content": "so " * 900}]})


def test_langchain():
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI, OpenAI

    model = ChatOpenAI(model="demo", stream_usage=True, temperature=0)
    parts = list(model.bind(max_tokens=8).stream(QUESTION))
    assert "".join(part.content for part in parts) == model.bind(max_tokens=8).invoke(QUESTION).content
    assert sum(part.usage_metadata["output_tokens"] for part in parts if part.usage_metadata) == 8
    forced = model.bind_tools([tool(weather)], tool_choice="weather")
    answer = forced.invoke(QUESTION)
    assert answer.tool_calls[0]["args"]["city"] in ("Paris", "Rome")
    streamed = None
    for part in forced.stream(QUESTION):
        streamed = part if streamed is None else streamed + part
    assert [call["args"] for call in streamed.tool_calls] == [call["args"] for call in answer.tool_calls]
    results = [ToolMessage("sun", tool_call_id=call["id"]) for call in answer.tool_calls]
    assert model.bind(max_tokens=4).invoke([HumanMessage(QUESTION), answer, *results]).response_metadata
    for method in ("json_schema", "function_calling"):
        assert isinstance(model.with_structured_output(City, method=method).invoke(QUESTION), City)
    assert OpenAI(model="demo", max_tokens=5).invoke("Once")


def test_llama_index():
    from llama_index.core.llms import ChatMessage
    from llama_index.core.prompts import PromptTemplate
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.openai_like import OpenAILike

    options = {"model": "demo", "api_base": URL, "api_key": "none", "temperature": 0}
    chat = OpenAILike(
        is_chat_model=True, is_function_calling_model=True, should_use_structured_outputs=True, **options
    )
    assert "".join(part.delta for part in chat.stream_chat([ChatMessage(role="user", content=QUESTION)]))
    assert isinstance(chat.structured_predict(City, PromptTemplate(QUESTION)), City)
    called = chat.chat_with_tools([FunctionTool.from_defaults(weather)], user_msg=QUESTION, tool_required=True)
    calls = chat.get_tool_calls_from_response(called)
    assert calls[0].tool_name == "weather" and calls[0].tool_kwargs["city"] in ("Paris", "Rome")
    assert OpenAILike(is_chat_model=False, **options).complete("Once").text


@pytest.mark.parametrize("mode", ["TOOLS", "TOOLS_STRICT", "JSON_SCHEMA"])
def test_instructor(mode):
    import instructor

    client = instructor.from_openai(openai.OpenAI(), mode=getattr(instructor.Mode, mode))
    options = {
        "model": "demo",
        "messages": [{"role": "user", "content": QUESTION}],
        "response_model": City,
        "max_retries": 0,
        "temperature": 0,  # JSON drawn at random may have so much white space that it exceeds the 512 positions
    }
    assert isinstance(client.chat.completions.create(**options), City)
    parts = list(client.chat.completions.create_partial(**options))
    assert parts[-1].country in ("France", "Italy")


def test_pydantic_ai():
    from pydantic_ai import Agent, NativeOutput, ToolOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("demo", provider=OpenAIProvider(base_url=URL, api_key="none"))
    for output in (ToolOutput(City), NativeOutput(City)):
        agent = Agent(model, output_type=output, model_settings={"temperature": 0})
        assert isinstance(agent.run_sync(QUESTION).output, City)

    async def streamed():
        async with Agent(model, model_settings={"max_tokens": 8}).run_stream(QUESTION) as run:
            return [part async for part in run.stream_text(delta=True)]

    assert "".join(asyncio.run(streamed()))


def test_openai_agents():
    from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled

    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel("demo", openai.AsyncOpenAI())
    typed = Agent(name="one", model=model, output_type=City, model_settings=ModelSettings(temperature=0))
    assert isinstance(Runner.run_sync(typed, QUESTION).final_output, City)
    settings = ModelSettings(temperature=0, tool_choice="weather", include_usage=True)
    called = Agent(name="two", model=model, tools=[function_tool(weather)], model_settings=settings)
    assert "tool_call_output_item" in [item.type for item in Runner.run_sync(called, QUESTION).new_items]

    async def streamed():
        run = Runner.run_streamed(called, QUESTION)
        async for _ in run.stream_events():
            pass
        return [item.type for item in run.new_items]

    assert "tool_call_output_item" in asyncio.run(streamed())


def test_outlines():
    import outlines
    from outlines.types import Regex

    asked = outlines.from_openai(openai.OpenAI(), "demo")
    assert City.model_validate_json(asked(QUESTION, City, temperature=0))
    assert City.model_validate_json("".join(asked.stream(QUESTION, City, temperature=0)))
    extended = outlines.from_vllm(openai.OpenAI(), "demo")
    assert extended(QUESTION, Literal["yes", "no"], max_tokens=9) in ("yes", "no")
    assert len(extended(QUESTION, Regex("[A-Z][a-z]{2}"), max_tokens=9)) == 3
    assert City.model_validate_json(extended(QUESTION, City, temperature=0))


def test_smolagents():
    from smolagents import OpenAIServerModel, tool

    model = OpenAIServerModel("demo", api_base=URL, api_key="none", temperature=0)
    asked = [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}]
    assert model(asked).content
    assert model(asked, tools_to_call_from=[tool(weather)]).tool_calls[0].function.name == "weather"


def test_dspy():
    import dspy

    model = dspy.LM("openai/demo", api_base=URL, api_key="none", max_tokens=5, cache=False)
    assert model(QUESTION)[0]
