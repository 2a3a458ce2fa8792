"""Chat stores for LlamaIndex: `ChatMemoryBuffer.from_defaults(chat_store=FrontdeskChatStore(manager))`, or
`Memory.from_defaults(chat_store=FrontdeskMemoryStore(manager))`.

LlamaIndex calls them from several threads and event loops. So both take the manager of `frontdesk.sync`."""

from frontdesk.extras import needs_extra

with needs_extra(__name__, "llama-index"):
    from frontdesk.integrations.llama_index.chat_store import FrontdeskChatStore
    from frontdesk.integrations.llama_index.memory_store import FrontdeskMemoryStore

__all__ = ["FrontdeskChatStore", "FrontdeskMemoryStore"]
