"""Persistence for LangGraph: `builder.compile(checkpointer=FrontdeskSaver(manager), store=FrontdeskStore(manager))`."""

from frontdesk.integrations.langgraph.saver import FrontdeskSaver
from frontdesk.integrations.langgraph.store import FrontdeskStore

__all__ = ["FrontdeskSaver", "FrontdeskStore"]
