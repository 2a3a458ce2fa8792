"""Persistence for LangGraph: `builder.compile(checkpointer=FrontdeskSaver(manager), store=FrontdeskStore(manager))`."""

from frontdesk.extras import needs_extra

with needs_extra(__name__, "langgraph"):
    from frontdesk.integrations.langgraph.saver import FrontdeskSaver
    from frontdesk.integrations.langgraph.store import FrontdeskStore

__all__ = ["FrontdeskSaver", "FrontdeskStore"]
