"""Frontdesk as the checkpointer of LangGraph, used exactly as LangGraph's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.contenders.langgraph_saver import LangGraphSaver
from frontdesk import SessionManager
from frontdesk.integrations.langgraph import FrontdeskSaver


class FrontdeskLangGraph(LangGraphSaver):
    def __init__(self, name: str = "FrontdeskSaver") -> None:
        super().__init__(name)

    async def _open(self, directory: Path) -> Any:
        return FrontdeskSaver(await self._stack.enter_async_context(SessionManager(f"sqlite:///{directory}/agents.db")))
