"""A worker that stops in the middle of a transaction: `frozen_worker.py URL` appends to session s, prints `inside`, and
stops itself before it commits."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import asyncpg

from frontdesk.store import Append
from frontdesk.stores.postgres import append
from frontdesk.stores.postgres.connection import Connection, Statements
from frontdesk.testing.store_contract.steps import NAMESPACE, NOW, message


async def main(url: str) -> None:
    connection = Connection(await asyncpg.connect(url), Statements("frontdesk"))
    request = Append(namespace=NAMESPACE, session_id="s", messages=(message("late"),), fresh=(True,), now=NOW)
    async with connection.transaction():
        await append.append_locked(connection, request, call=1)
        sys.stdout.write("inside\n")
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGSTOP)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
