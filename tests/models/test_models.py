"""`frontdesk.models.openai` and `anthropic`, through their official packages, over real HTTP to a scripted server."""

from __future__ import annotations

import asyncio
import copy
import pickle
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

from frontdesk import models
from frontdesk.errors import (
    ConfigurationError,
    FrontdeskError,
    ModelError,
    ModelOverflowError,
    ModelRateLimitError,
    ModelRefusedError,
    ModelTimeoutError,
)
from frontdesk.models import ChatModel, Completion, ModelUsage, is_context_overflow
from tests.models.scripted_server import (
    Answer,
    Fault,
    Hang,
    Interrupted,
    Request,
    Reset,
    ScriptedServer,
    ToolCall,
    overflow,
    rate_limit,
)
from tests.models.steps import Protocol

MakeModel = Callable[..., ChatModel]
SECRET = "the launch code is 0451"


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as running:
        yield running


@pytest.fixture(params=["openai", "anthropic"])
def protocol(request: pytest.FixtureRequest) -> Protocol:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
async def make(server: ScriptedServer, protocol: Protocol) -> AsyncIterator[MakeModel]:
    made: list[ChatModel] = []

    def build(name: str = "test-model", **options: Any) -> ChatModel:
        options = {"max_retries": 0, "timeout": 10.0, "api_key": "key", **options}
        if protocol == "openai":
            made.append(models.openai(name, base_url=server.openai_url, **options))
        else:
            made.append(models.anthropic(name, base_url=server.anthropic_url, **options))
        return made[-1]

    yield build
    for model in made:
        await model.close()


async def failing(model: ChatModel, prompt: str = SECRET) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await model(prompt)
    return caught.value


# answers


async def test_a_model_is_a_callable_from_prompt_to_text(server: ScriptedServer, make: MakeModel) -> None:
    server.script(Answer("Paris, naturally: 巴黎。"))
    answer = await make()("Capital of France?")
    assert isinstance(answer, str)
    assert answer == "Paris, naturally: 巴黎。"
    [request] = server.requests
    assert request.body["messages"] == [{"role": "user", "content": "Capital of France?"}]
    assert request.body["model"] == "test-model"
    assert "key" in (request.headers.get("authorization") or "") + (request.headers.get("x-api-key") or "")


async def test_an_answer_has_model_and_usage_counted_in_the_same_way_for_all(
    server: ScriptedServer, make: MakeModel
) -> None:
    server.script(Answer("Yes.", input_tokens=1000, output_tokens=90, cached=600, cache_written=100, reasoning=80))
    answer = await make()("?")
    assert answer.model == "test-model"
    assert answer.usage == ModelUsage(
        input_tokens=1000, output_tokens=90, cache_read_tokens=600, cache_write_tokens=100, reasoning_tokens=80
    )
    assert not answer.truncated


async def test_system_text_goes_where_the_protocol_expects_it(
    server: ScriptedServer, make: MakeModel, protocol: Protocol
) -> None:
    server.script(Answer("Oui."))
    await make()("Yes?", system="Answer in French.")
    body = server.requests[0].body
    if protocol == "openai":
        assert body["messages"][0] == {"role": "system", "content": "Answer in French."}
    else:
        assert body["system"] == "Answer in French."
    assert body["messages"][-1] == {"role": "user", "content": "Yes?"}


async def test_settings_reach_the_server(server: ScriptedServer, make: MakeModel) -> None:
    server.script(Answer("Yes."))
    await make(max_tokens=321, temperature=0.25, default_headers={"x-team": "desk"})("?")
    [request] = server.requests
    assert (request.body["max_tokens"], request.body["temperature"]) == (321, 0.25)
    assert request.headers["x-team"] == "desk"


async def test_what_is_not_set_is_not_sent(server: ScriptedServer, make: MakeModel, protocol: Protocol) -> None:
    server.script(Answer("Yes."))
    await make()("?")
    body = server.requests[0].body
    assert "temperature" not in body
    assert body.get("max_tokens") == (None if protocol == "openai" else 8_192)


async def test_an_answer_cut_at_a_token_limit_is_flagged(server: ScriptedServer, make: MakeModel) -> None:
    server.script(Answer("To be continu", end="length"))
    answer = await make()("?")
    assert answer == "To be continu"
    assert answer.truncated


async def test_a_server_that_does_not_know_stream_options_is_called_without_them(server: ScriptedServer) -> None:
    def strict(request: Request) -> Answer | Fault:
        if "stream_options" in request.body:
            return Fault(422, "body.stream_options: Extra inputs are not permitted")
        return Answer("Yes.")

    server.otherwise = strict
    model = models.openai("old-server", base_url=server.openai_url)
    assert [await model("?"), await model("?")] == ["Yes.", "Yes."]
    assert (await model("?")).usage is None
    assert len(server.requests) == 4
    await model.close()


# failures


async def test_temporary_failures_are_retried_by_the_package(server: ScriptedServer, make: MakeModel) -> None:
    server.script(rate_limit(), Fault(500, headers={"retry-after-ms": "1"}), Answer("Third time."))
    assert await make(max_retries=2)("?") == "Third time."
    assert len(server.requests) == 3


async def test_a_connection_reset_before_the_answer_is_retried(server: ScriptedServer, make: MakeModel) -> None:
    server.script(Reset(), Answer("Again."))
    assert await make(max_retries=1)("?") == "Again."


async def test_a_persistent_rate_limit_says_when_to_try_again(server: ScriptedServer, make: MakeModel) -> None:
    server.script(rate_limit(7.5))
    error = await failing(make())
    assert isinstance(error, ModelRateLimitError)
    assert (error.retry_after, error.status, error.model) == (7.5, 429, "test-model")


async def test_a_rate_limit_without_retry_after_has_none(server: ScriptedServer, make: MakeModel) -> None:
    server.script(rate_limit(None))
    error = await failing(make())
    assert isinstance(error, ModelRateLimitError)
    assert error.retry_after is None


async def test_a_used_up_quota_is_a_refusal_and_not_a_rate_limit(server: ScriptedServer) -> None:
    server.script(Fault(429, "You exceeded your current quota.", "insufficient_quota", "insufficient_quota"))
    model = models.openai("test-model", base_url=server.openai_url, max_retries=0)
    assert type(await failing(model)) is ModelRefusedError
    await model.close()


@pytest.mark.parametrize("status", [500, 503, 529])
async def test_a_server_error_is_a_model_error_with_its_status(
    server: ScriptedServer, make: MakeModel, status: int
) -> None:
    server.script(Fault(status))
    error = await failing(make())
    assert type(error) is ModelError
    assert error.status == status


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_a_request_that_the_server_does_not_accept_is_a_refusal(
    server: ScriptedServer, make: MakeModel, status: int
) -> None:
    server.script(Fault(status))
    error = await failing(make())
    assert type(error) is ModelRefusedError
    assert error.status == status


async def test_a_prompt_that_does_not_fit_is_an_overflow(
    server: ScriptedServer, make: MakeModel, protocol: Protocol
) -> None:
    server.script(overflow(protocol))
    error = await failing(make())
    assert type(error) is ModelOverflowError
    assert is_context_overflow(error)
    assert error.status == 400


async def test_a_server_that_does_not_answer_is_a_timeout(server: ScriptedServer, make: MakeModel) -> None:
    server.script(Hang())
    assert type(await failing(make(timeout=0.2))) is ModelTimeoutError


async def test_a_pause_in_the_middle_of_an_answer_is_a_timeout(server: ScriptedServer, make: MakeModel) -> None:
    server.script(Interrupted(how="hang"))
    assert type(await failing(make(timeout=0.3))) is ModelTimeoutError


@pytest.mark.parametrize("how", ["end", "reset", "error"])
async def test_an_incomplete_answer_is_never_returned(server: ScriptedServer, make: MakeModel, how: Any) -> None:
    server.script(Interrupted("All is well, except that", how))
    error = await failing(make())
    assert type(error) is ModelError
    assert "All is well" not in str(error)


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_an_empty_answer_is_an_error(server: ScriptedServer, make: MakeModel, text: str) -> None:
    server.script(Answer(text))
    assert type(await failing(make())) is ModelError


async def test_an_answer_that_was_all_reasoning_says_which_limit_to_raise(
    server: ScriptedServer, make: MakeModel
) -> None:
    server.script(Answer("", end="length"))
    assert "max_tokens" in str(await failing(make()))


async def test_a_withheld_answer_is_a_refusal(server: ScriptedServer, make: MakeModel) -> None:
    server.script(Answer("I was about to", end="refusal"))
    assert type(await failing(make())) is ModelRefusedError


async def test_a_server_that_cannot_be_reached_is_a_model_error(make: MakeModel, server: ScriptedServer) -> None:
    model = make()
    with ScriptedServer() as gone:
        address = gone.url
    elsewhere = models.openai("x", base_url=f"{address}/v1", max_retries=0)
    error = await failing(elsewhere)
    assert type(error) is ModelError
    assert error.status is None
    await elsewhere.close()
    server.script(Answer("Here."))
    assert await model("?") == "Here."


@pytest.mark.parametrize("status", [400, 401, 429, 500])
async def test_errors_never_contain_the_prompt(server: ScriptedServer, make: MakeModel, status: int) -> None:
    server.script(lambda request: Fault(status, f"I did not like {request.prompt!r}"))
    error = await failing(make())
    assert isinstance(error, FrontdeskError)
    assert SECRET not in f"{error} {error!r} {error.details} {error.args}"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.status, again.model) == (type(error), error.status, error.model)
    assert SECRET not in "".join(traceback.format_exception(again))


async def test_cancelling_a_call_cancels_it(server: ScriptedServer, make: MakeModel) -> None:
    server.script(Hang())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await make()("?")


# the object


async def test_many_calls_share_one_client(server: ScriptedServer, make: MakeModel) -> None:
    server.otherwise = lambda request: Answer(request.prompt.upper())
    model = make()
    assert await asyncio.gather(*(model(f"n{n}") for n in range(20))) == [f"N{n}" for n in range(20)]
    assert len(model._clients) == 1


def test_a_model_works_in_several_event_loops_one_after_the_other(protocol: Protocol) -> None:
    with ScriptedServer() as server:
        server.otherwise = Answer("Here.")
        if protocol == "openai":
            model: ChatModel = models.openai("m", base_url=server.openai_url)
        else:
            model = models.anthropic("m", base_url=server.anthropic_url, api_key="key")

        async def call() -> str:
            try:
                return await model("?")
            finally:
                await model.close()

        assert [asyncio.run(call()), asyncio.run(call())] == ["Here.", "Here."]


async def test_a_closed_model_opens_again(server: ScriptedServer, make: MakeModel) -> None:
    server.otherwise = Answer("Here.")
    model = make()
    await model.close()
    assert await model("?") == "Here."
    await model.close()
    await model.close()
    assert await model("?") == "Here."


@pytest.mark.parametrize("build", [models.openai, models.anthropic])
def test_a_missing_package_is_named_with_its_extra(
    build: Callable[[str], ChatModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = build.__name__
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigurationError, match=rf"pip install 'frontdesk\[{name}\]'"):
        build("some-model")


async def test_a_missing_key_is_named(
    protocol: Protocol, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    model: ChatModel = models.openai("m") if protocol == "openai" else models.anthropic("m", base_url=server.url)
    with pytest.raises(ConfigurationError, match=f"{protocol.upper()}_API_KEY"):
        await model("?")
    assert server.requests == []
    await model.close()


@pytest.mark.parametrize(
    "wrong", [{"max_tokens": 0}, {"timeout": 0}, {"timeout": float("nan")}, {"max_retries": -1}, {"context_window": 0}]
)
def test_invalid_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        models.openai("m", **wrong)
    with pytest.raises(ConfigurationError, match="name"):
        models.anthropic("")


def test_settings_are_frozen_and_do_not_show_the_key() -> None:
    model = models.openai("gpt-5.5", api_key="sk-secret")
    with pytest.raises(FrozenInstanceError):
        model.settings.model = "other"  # type: ignore[misc]
    assert "sk-secret" not in f"{model!r} {model.settings!r}"


def test_a_model_knows_its_window_unless_one_is_set() -> None:
    assert models.openai("gpt-4o-mini").context_window == 128_000
    assert models.openai("my-own", context_window=9_000).context_window == 9_000
    assert models.anthropic("claude-opus-5", context_window=50_000).context_window == 50_000
    assert models.openai("my-own").context_window is None
    assert models.openai("my-own").name == "my-own"


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_a_completion_survives_copying(again: Callable[[Completion], Completion]) -> None:
    completion = again(Completion("Yes.", model="m", usage=ModelUsage(3, 4), truncated=True))
    assert (completion, completion.model, completion.usage, completion.truncated) == (
        "Yes.",
        "m",
        ModelUsage(3, 4),
        True,
    )


# the server, used without `frontdesk.models`


@pytest.mark.parametrize("stream", [False, True])
async def test_the_server_answers_the_openai_package_with_tool_calls(server: ScriptedServer, stream: bool) -> None:
    from openai import AsyncOpenAI

    server.script(Answer("Let me look.", (ToolCall("call_1", "search", {"query": "Paris"}),)))
    async with AsyncOpenAI(base_url=server.openai_url, api_key="key") as client:
        if stream:
            async with client.chat.completions.stream(
                model="m", messages=[{"role": "user", "content": "?"}]
            ) as streaming:
                choice = (await streaming.get_final_completion()).choices[0]
        else:
            whole = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "?"}])
            choice = whole.choices[0]  # type: ignore[assignment]
    assert choice.message.content == "Let me look."
    assert choice.finish_reason == "tool_calls"
    [call] = choice.message.tool_calls or []
    assert (call.id, call.function.name, call.function.arguments) == ("call_1", "search", '{"query": "Paris"}')


@pytest.mark.parametrize("stream", [False, True])
async def test_the_server_answers_the_anthropic_package_with_tool_calls(server: ScriptedServer, stream: bool) -> None:
    from anthropic import AsyncAnthropic

    server.script(Answer("Let me look.", (ToolCall("toolu_1", "search", {"query": "Paris"}),)))
    request: dict[str, Any] = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "?"}]}
    async with AsyncAnthropic(base_url=server.anthropic_url, api_key="key") as client:
        if stream:
            async with client.messages.stream(**request) as streaming:
                message = await streaming.get_final_message()
        else:
            message = await client.messages.create(**request)
    text, call = message.content
    assert text.to_dict()["text"] == "Let me look."
    assert call.to_dict() | {} == {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"query": "Paris"}}
    assert message.stop_reason == "tool_use"


async def test_a_finished_script_reports_that(server: ScriptedServer, make: MakeModel) -> None:
    server.script(Answer("Once."))
    model = make()
    assert await model("?") == "Once."
    assert server.left == 0
    assert "script_exhausted" in str(await failing(model))
