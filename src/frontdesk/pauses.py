"""`sleep` for loops that run in the background. It is `asyncio.sleep` as it was on import: a test that replaces
`asyncio.sleep` with one that returns at once would otherwise make these loops spin."""

from asyncio import sleep

__all__ = ["sleep"]
