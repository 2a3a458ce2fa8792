"""Removes all data of a person, an agent or a channel, in steps that can be interrupted and continued at any point."""

from __future__ import annotations

from functools import partial

from frontdesk.checks import check_text
from frontdesk.config.runtime import Runtime
from frontdesk.errors import InvalidInputError
from frontdesk.keys import SessionKey
from frontdesk.manager.author_erasure import AuthorEraser
from frontdesk.manager.directory import key_columns
from frontdesk.manager.session_erasure import SessionEraser, Whose
from frontdesk.manager.states import StateCleaner
from frontdesk.records import ErasureReport
from frontdesk.states.expiry import work_off
from frontdesk.store import OwnerFilter, OwnerQuery, ShelfStore


class Eraser:
    """Decides whose data is meant, and erases it step by step."""

    def __init__(self, runtime: Runtime, states: StateCleaner) -> None:
        self._runtime = runtime
        self._states = states
        self._sessions = SessionEraser(runtime, states)
        self._authors = AuthorEraser(runtime)

    async def erase(
        self,
        key: SessionKey | None,
        agent: str | None,
        channel: str | None,
        peer: str | None,
        author: str | None,
    ) -> ErasureReport:
        """See `SessionManager.erase`."""
        whose = self._whose(key, agent, channel, peer, is_whole=author is None)
        if author is not None:
            report = await self._authors.erase(whose, check_text(author, "author"))
        else:
            report = await self._erase_all(whose)
        await self._runtime.store.scrub(self._runtime.namespace)
        return report

    async def _erase_all(self, whose: Whose) -> ErasureReport:
        await self._states.reach()
        report = await self._sessions.erase(whose)
        report += ErasureReport(block_versions=await self._delete_blocks(whose))
        owners = OwnerFilter(whose.agent, whose.channel, whose.peer, whose.thread)
        states = await self._states.delete_owned(owners)
        return report + ErasureReport(states=states, shelves=await self._delete_shelves(owners))

    async def _delete_shelves(self, owners: OwnerFilter) -> int:
        store: object = self._runtime.store
        if not isinstance(store, ShelfStore):
            return 0
        return await work_off(partial(store.delete_owned_shelves, self._runtime.namespace, owners))

    async def _delete_blocks(self, whose: Whose) -> int:
        """Delete the blocks that belong to more than one session: to the keys, guests and agents that are meant."""
        return await self._runtime.store.delete_documents(
            OwnerQuery(
                namespace=self._runtime.namespace,
                agent=whose.agent,
                channel=whose.channel,
                peer=whose.peer,
                thread=whose.thread,
            )
        )

    def _whose(
        self, key: SessionKey | None, agent: str | None, channel: str | None, peer: str | None, *, is_whole: bool
    ) -> Whose:
        parts = {"agent": agent, "channel": channel, "peer": peer}
        given = {what: check_text(part, what) for what, part in parts.items() if part is not None}
        if (key is not None and given) or (is_whole and key is None and not given):
            raise InvalidInputError("erase needs a key, or one or more of agent, channel and peer, or an author")
        if key is not None:
            return Whose(*key_columns(self._runtime, key))
        for what in given:
            if what not in self._runtime.settings.isolation:
                raise InvalidInputError(
                    f"this manager does not distinguish sessions by {what}: erase by one that `with_isolation` names",
                    part=what,
                )
        return Whose(**given)
