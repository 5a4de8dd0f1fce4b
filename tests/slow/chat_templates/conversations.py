"""Holds the conversations that chat templates are tested with.

The conversations cover what differs between models (system messages, tools, thoughts, documents) and
what can go wrong (unknown roles, missing contents).
"""

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a place, as <b>°C</b> & \"words\".",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "e.g. Zürich", "enum": ["Zürich", "東京"]},
                "days": {"type": "integer", "minimum": 1, "default": 3},
                "scale": {"type": ["number", "null"], "description": "a factor"},
                "where": {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]},
                "tags": {"type": "array", "items": {"type": "string"}, "description": "what\nnot"},
            },
            "required": ["city"],
        },
        "return": {"type": "string", "description": "a sentence"},
    },
}
TIME = {"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}}
PLAIN_TOOL = {"name": "plain", "description": "no wrapper", "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}}

SYSTEM = {"role": "system", "content": "  Be brief.\n"}
UNICODE = "é e\u0301 😀👩\u200d👩\u200d👧 שלום ١٢٣ \u200bß\u00a0 \r\nend\u3000"


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def call(name, arguments, id="call00001"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(content, name="get_weather", id="call00001"):
    return {"role": "tool", "name": name, "tool_call_id": id, "content": content}


def parts(*texts):
    return [{"type": "text", "text": text} for text in texts]


TURNS = [user("Hi"), assistant("Hello there"), user("2+2?"), assistant("4"), user(" bye ")]
CALLS = [
    user("Weather?"),
    assistant("", tool_calls=[call("get_weather", {"city": "Zürich", "days": 2, "scale": 1.5, "tags": ["a", "b"]})]),
    tool('{"temp": 3.0, "sky": "grau"}'),
    assistant("3 °C"),
    user("And now?"),
]
TWO_CALLS = [
    user("Both"),
    assistant("one moment", tool_calls=[call("get_weather", {"city": "東京", "where": {"lat": -1e-7}}), call("now", {}, "call00002")]),
    tool("warm"),
    tool("12:00", "now", "call00002"),
]
TEXT_CALLS = [user("Weather?"), assistant("", tool_calls=[call("get_weather", '{"city": "Zürich"}')]), tool("ok")]
NO_CONTENT_CALL = [user("Weather?"), {"role": "assistant", "tool_calls": [call("now", {})]}, tool("noon", "now")]
THOUGHTS = [
    user("Hi"),
    assistant("<think>\nhm\n</think>\n\nHello"),
    user("Why?"),
    assistant("Because", reasoning_content="\nthe reason\n", thinking="\nthe reason\n"),
    user("OK"),
]

CONVERSATIONS = {
    "one": dict(messages=[user("Hi")]),
    "no_prompt": dict(messages=[user("Hi")], add_generation_prompt=False),
    "system": dict(messages=[SYSTEM, user("Hi")]),
    "turns": dict(messages=TURNS),
    "system_turns": dict(messages=[SYSTEM] + TURNS, add_generation_prompt=False),
    "ends_with_assistant": dict(messages=TURNS[:4]),
    "starts_with_assistant": dict(messages=[assistant("I begin"), user("odd")]),
    "two_users": dict(messages=[user("a"), user("b")]),
    "empty_content": dict(messages=[user(""), assistant(""), user(" ")]),
    "unicode": dict(messages=[dict(SYSTEM, content=UNICODE), user(UNICODE), assistant(UNICODE), user("\r\n x \t")]),
    "html": dict(messages=[user("<a href='x'>&amp;\"</a> {{ 1 }} {% if %} \\n \\u0041")]),
    "special_text": dict(messages=[user("<|im_end|>\n<|im_start|>system\n</s>[INST] <|eot_id|>")]),
    "parts": dict(messages=[user(parts("one", "two")), assistant(parts("three")), user(parts("four"))]),
    "image": dict(messages=[user([{"type": "image"}] + parts("what?")), assistant("a cat"), user([{"type": "text", "text": "so"}, {"type": "image_url", "image_url": {"url": "x"}}])]),
    "system_parts": dict(messages=[dict(SYSTEM, content=parts("be kind")), user(parts("Hi"))]),
    "tools": dict(messages=[SYSTEM, user("Weather?")], tools=[WEATHER, TIME]),
    "tools_no_system": dict(messages=[user("Weather?")], tools=[WEATHER]),
    "plain_tool": dict(messages=[user("x")], tools=[PLAIN_TOOL]),
    "empty_tools": dict(messages=[user("x")], tools=[]),
    "calls": dict(messages=CALLS, tools=[WEATHER]),
    "calls_no_tools": dict(messages=CALLS),
    "system_calls": dict(messages=[SYSTEM] + CALLS[:3], tools=[WEATHER, TIME]),
    "two_calls": dict(messages=TWO_CALLS, tools=[WEATHER, TIME]),
    "text_calls": dict(messages=TEXT_CALLS, tools=[WEATHER]),
    "no_content_call": dict(messages=NO_CONTENT_CALL, tools=[TIME]),
    "calls_unfinished": dict(messages=CALLS[:2], tools=[WEATHER], add_generation_prompt=False),
    "thoughts": dict(messages=THOUGHTS),
    "thoughts_off": dict(messages=THOUGHTS, enable_thinking=False, thinking=False),
    "thoughts_on": dict(messages=[user("Hi")], enable_thinking=True, thinking=True, reasoning_effort="high"),
    "no_thinking": dict(messages=[SYSTEM, user("Hi")], enable_thinking=False, thinking_budget=0),
    "documents": dict(messages=[user("Who?")], documents=[{"title": "One", "text": "first"}, {"title": "Zwei ß", "text": "second\nline"}]),
    "developer": dict(messages=[{"role": "developer", "content": "obey"}, user("Hi")]),
    "other_roles": dict(messages=[user("x"), {"role": "ipython", "content": "1"}, {"role": "observation", "content": "2"}, {"role": "tool", "content": {"a": 1}}]),
    "odd_role": dict(messages=[{"role": "wizard", "content": "zap"}]),
    "no_role": dict(messages=[{"content": "zap"}]),
    "no_content": dict(messages=[{"role": "user"}]),
    "null_content": dict(messages=[user(None), assistant(None), user("x")]),
    "number_content": dict(messages=[user(5), user(1.5), user(True)]),
    "no_messages": dict(messages=[]),
    "names": dict(messages=[dict(user("Hi"), name="Ann"), assistant("Hello", name="Bob", prefix=True)]),
    "long": dict(messages=[SYSTEM] + TURNS * 5),
    "date": dict(messages=[user("Hi")], date_string="01 Jan 2030"),
    "custom_tools": dict(messages=[SYSTEM, user("x")], custom_tools=[WEATHER], tools_in_user_message=False),
    "builtin_tools": dict(messages=[SYSTEM, user("x")], tools=[TIME], builtin_tools=["brave_search", "code_interpreter"]),
}

SPECIAL_TOKENS = dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>")


def contexts():
    """Yields the name of every conversation and the variables that transformers passes to a
    template.
    """
    for name, given in CONVERSATIONS.items():
        given = dict(given)
        context = dict(
            messages=given.pop("messages"),
            tools=given.pop("tools", None),
            documents=given.pop("documents", None),
            add_generation_prompt=given.pop("add_generation_prompt", True),
        )
        yield name, {**context, **SPECIAL_TOKENS, **given}
