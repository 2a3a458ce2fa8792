"""Sessions that start with the history of another: forks, and the successor of a session that was compacted and
ended."""

from __future__ import annotations

import time

from frontdesk.checks import check_summary, check_text
from frontdesk.config.runtime import Runtime
from frontdesk.errors import SessionExistsError, SessionNotFoundError
from frontdesk.history import trees
from frontdesk.keys import SessionKey
from frontdesk.manager.directory import check_key
from frontdesk.messages.ids import check_id, new_id
from frontdesk.session.components import Components
from frontdesk.session.forking import forked_documents, forked_session
from frontdesk.session.handle import Handle
from frontdesk.session.splitting import split
from frontdesk.session.turns import Follows, KeyMovedError, TurnRequest, shortened, take
from frontdesk.store import Plan, SessionRow, ViewRow
from frontdesk.tree import forks
from frontdesk.tree.tree import Tree


class Forks:
    """Makes sessions from sessions."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def fork(
        self,
        ref: str | SessionKey,
        at: str | None,
        name: str | None,
        wanted_id: str | None,
        key: SessionKey | None,
    ) -> str:
        """A fork at a message, or at the head; see `SessionManager.fork`. Returns its id."""
        made = new_id() if wanted_id is None else check_id(wanted_id, "session id")
        parts = None if key is None else self._runtime.stored_key(check_key(key)).parts
        takes_prompt = True

        def build_at_head(row: SessionRow, view: ViewRow) -> Plan | None:
            nonlocal takes_prompt
            new = forked_session(row, made, name, self._runtime.now(), parts)
            documents = forked_documents(self._runtime, row, new)
            takes_prompt = documents.prompt
            return forks.fork_at_head(row, view, new, new.now, documents)

        async def build(tree: Tree) -> Plan | None:
            nonlocal takes_prompt
            place = tree.session.head if at is None else trees.place_of(tree, at)
            new = forked_session(tree.session, made, name, self._runtime.now(), parts)
            documents = forked_documents(self._runtime, tree.session, new)
            takes_prompt = documents.prompt
            return forks.fork(tree, new, place, new.now, documents)

        source = Components(Handle(self._runtime, ref))
        try:
            is_made = at is None and await source.handle.change_at_head(build_at_head)
            if not is_made and not await source.handle.change(build, find=() if at is None else [at]):
                raise SessionNotFoundError(str(ref), self._runtime.namespace)
        except SessionExistsError:
            taken = await self._runtime.store.get(self._runtime.namespace, made)
            raise SessionExistsError(made if taken else str(key), self._runtime.namespace) from None
        if takes_prompt:
            await source.prompt.copy_to(made)
        self._runtime.hooks.announce(made, "on_session_start")
        return made

    async def compact_and_split(
        self, ref: str | SessionKey, summary: str | None, name: str | None, request: TurnRequest
    ) -> str:
        """End a session and continue in a new one; see `SessionManager.compact_and_split`. Returns the new id."""
        started = time.monotonic()
        if summary is not None:
            check_summary(summary)
        if name is not None:
            check_text(name, "name")
        while True:
            source = Components(Handle(self._runtime, ref))
            session_id = (await source.handle.row()).id
            opening = await source.compactor.opening(summary)
            follows: Follows = "never" if isinstance(ref, str) else "always"
            try:
                holding = await take(self._runtime, session_id, shortened(request, started), follows)
            except KeyMovedError:
                continue  # another call was first: the key has another session now
            assert holding is not None  # the request has no message to queue
            async with holding:
                return (await split(holding, opening, name)).session_id
