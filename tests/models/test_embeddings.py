"""`frontdesk.models.openai_embeddings`, through the official package, over real HTTP to a scripted server."""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from frontdesk import models
from frontdesk.errors import (
    ConfigurationError,
    ModelError,
    ModelOverflowError,
    ModelRateLimitError,
    ModelRefusedError,
    ModelTimeoutError,
)
from frontdesk.models.embeddings import OpenAIEmbeddings
from tests.models.scripted_server import Fault, Hang, Reset, ScriptedServer, Vectors, overflow, rate_limit

MakeEmbeddings = Callable[..., OpenAIEmbeddings]
SECRET = "the launch code is 0451"


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as running:
        yield running


@pytest.fixture
async def make(server: ScriptedServer) -> AsyncIterator[MakeEmbeddings]:
    made: list[OpenAIEmbeddings] = []

    def build(**options: Any) -> OpenAIEmbeddings:
        options = {"max_retries": 0, "timeout": 10.0, "api_key": "key", **options}
        made.append(models.openai_embeddings("embed-test", base_url=server.openai_url, **options))
        return made[-1]

    yield build
    for embeddings in made:
        await embeddings.close()


async def test_vectors_come_in_the_order_of_the_texts(server: ScriptedServer, make: MakeEmbeddings) -> None:
    server.script(Vectors(((1.0, 0.5), (0.25, -2.0), (0.0, 3.0))))
    assert await make()(["a", "b", "c"]) == [[1.0, 0.5], [0.25, -2.0], [0.0, 3.0]]
    [request] = server.requests
    assert request.path == "/v1/embeddings"
    assert request.body == {"model": "embed-test", "input": ["a", "b", "c"], "encoding_format": "float"}
    assert request.headers["authorization"] == "Bearer key"


async def test_dimensions_are_requested_if_they_are_set(server: ScriptedServer, make: MakeEmbeddings) -> None:
    server.script(Vectors(((1.0, 0.5),)))
    await make(dimensions=2, default_headers={"x-team": "desk"})(["a"])
    assert server.requests[0].body["dimensions"] == 2
    assert server.requests[0].headers["x-team"] == "desk"


async def test_without_texts_no_server_is_called(server: ScriptedServer, make: MakeEmbeddings) -> None:
    assert await make()([]) == []
    assert server.requests == []


async def test_temporary_failures_are_retried_by_the_package(server: ScriptedServer, make: MakeEmbeddings) -> None:
    server.script(rate_limit(), Fault(500, headers={"retry-after-ms": "1"}), Reset(), Vectors(((1.0,),)))
    assert await make(max_retries=3)(["a"]) == [[1.0]]
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (rate_limit(7.5), ModelRateLimitError),
        (Fault(500), ModelError),
        (Fault(503), ModelError),
        (Reset(), ModelError),
        (Fault(401), ModelRefusedError),
        (Fault(404), ModelRefusedError),
        (overflow("openai"), ModelOverflowError),
        (Fault(429, "You exceeded your current quota.", "insufficient_quota", "insufficient_quota"), ModelRefusedError),
    ],
)
async def test_permanent_failures_are_typed_and_do_not_quote_the_texts(
    server: ScriptedServer, make: MakeEmbeddings, step: Any, kind: type[ModelError]
) -> None:
    server.script(step)
    with pytest.raises(ModelError) as caught:
        await make()([SECRET])
    assert type(caught.value) is kind
    assert caught.value.model == "embed-test"
    assert "0451" not in "".join(traceback.format_exception_only(caught.value))


async def test_a_silent_server_times_out(server: ScriptedServer, make: MakeEmbeddings) -> None:
    server.script(Hang())
    with pytest.raises(ModelTimeoutError):
        await make(timeout=0.1)(["a"])


@pytest.mark.parametrize("vectors", [(), ((1.0,),), ((1.0,), (2.0,), (3.0,))])
async def test_a_wrong_number_of_vectors_is_an_error(
    server: ScriptedServer, make: MakeEmbeddings, vectors: tuple[tuple[float, ...], ...]
) -> None:
    server.script(Vectors(vectors))
    with pytest.raises(ModelError):
        await make()(["a", "b"])


async def test_a_local_server_needs_no_key_but_openai_does(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    server.script(Vectors(((1.0,),)))
    own = models.openai_embeddings("local", base_url=server.openai_url)
    assert await own(["a"]) == [[1.0]]
    await own.close()
    with pytest.raises(ConfigurationError):
        await models.openai_embeddings("text-embedding-3-small")(["a"])
