"""Vectors from servers with the OpenAI embeddings API: a callable for `with_embeddings`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontdesk.errors import FrontdeskError, ModelError
from frontdesk.models.chat import ChatSettings
from frontdesk.models.failures import to_model_error
from frontdesk.models.openai import OpenAIModel


def openai_embeddings(
    model: str,
    *,
    dimensions: int | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    timeout: float = 60.0,
    max_retries: int = 2,
    **client_options: Any,
) -> OpenAIEmbeddings:
    """An embedding model of OpenAI, or of any server with the same API at `base_url`, through the official package.

    `dimensions` is the length of the vectors that the server is asked for; leave it out for models with only one. The
    other arguments are those of `openai`. Raises `ConfigurationError` if the package is not installed."""
    return OpenAIEmbeddings(
        ChatSettings(
            model=model,
            base_url=base_url,
            api_key=api_key,
            timeout=timeout,
            max_retries=max_retries,
            client_options=client_options,
        ),
        dimensions,
    )


class OpenAIEmbeddings:
    """`await embed(texts)` returns a vector for each text. Safe to share between tasks and loops."""

    def __init__(self, settings: ChatSettings, dimensions: int | None) -> None:
        self._model = OpenAIModel(settings)
        self._options: dict[str, Any] = {} if dimensions is None else {"dimensions": dimensions}

    @property
    def name(self) -> str:
        """The name of the model as it is sent to the server."""
        return self._model.name

    def __repr__(self) -> str:
        return f"OpenAIEmbeddings({self.name!r})"

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text, in their order. Raises `ModelError` or a subclass, and `ConfigurationError` without
        a key."""
        if not texts:
            return []
        client = await self._model.client()
        try:
            # By default the package asks for base64, which not every server supports.
            answer = await client.embeddings.create(
                model=self.name, input=list(texts), encoding_format="float", **self._options
            )
        except FrontdeskError:
            raise
        except Exception as error:
            raise to_model_error(error, self.name) from error
        by_index = {entry.index: list(entry.embedding) for entry in answer.data or ()}
        if sorted(by_index) != list(range(len(texts))):
            raise ModelError(
                f"model {self.name!r} returned {len(by_index)} vectors for {len(texts)} texts: try again",
                model=self.name,
            )
        return [by_index[index] for index in range(len(texts))]

    async def close(self) -> None:
        """Close the connections of the running event loop. A later call opens new ones."""
        await self._model.close()
