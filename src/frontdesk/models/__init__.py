"""Ready-made models: callables `prompt -> text` for summaries and memory, and `texts -> vectors` for search.

You can use any other such callable instead."""

from frontdesk.models.anthropic import anthropic
from frontdesk.models.chat import ChatModel
from frontdesk.models.completion import Completion, ModelUsage
from frontdesk.models.embeddings import openai_embeddings
from frontdesk.models.extractive import extractive
from frontdesk.models.openai import openai
from frontdesk.models.overflow import is_context_overflow
from frontdesk.models.windows import context_window

__all__ = [
    "ChatModel",
    "Completion",
    "ModelUsage",
    "anthropic",
    "context_window",
    "extractive",
    "is_context_overflow",
    "openai",
    "openai_embeddings",
]
