"""What concerns a whole namespace, and needs the role `admin`: erasing, sweeping and recovering."""

from __future__ import annotations

from starlette.responses import Response

from frontdesk.manager.manager import SessionManager
from frontdesk.records import ErasureReport, RecoveryReport, SweepReport
from frontdesk.server.bodies import EraseBody, ForgetStateStoreBody
from frontdesk.server.gate import needs
from frontdesk.server.routes.parts import AccessOf, router, to_key, words
from frontdesk.server.wire import answer

routes = router("administration")


@routes.post("/erase", response_model=ErasureReport, description=words(SessionManager.erase))
@needs("admin", long=True)
async def erase(access: AccessOf, body: EraseBody) -> Response:
    access.require_unbound()
    values = body.model_dump(exclude={"key"})
    return answer(await access.manager.erase(key=to_key(body.key), **values))


@routes.post("/sweep", response_model=SweepReport, description=words(SessionManager.sweep))
@needs("admin", long=True)
async def sweep(access: AccessOf) -> Response:
    access.require_unbound()
    return answer(await access.manager.sweep())


@routes.post("/recover", response_model=RecoveryReport, description=words(SessionManager.recover))
@needs("admin", long=True)
async def recover(access: AccessOf) -> Response:
    access.require_unbound()
    return answer(await access.manager.recover())


@routes.post(
    "/forget-state-store", response_model=dict[str, bool], description=words(SessionManager.forget_state_store)
)
@needs("admin")
async def forget_state_store(access: AccessOf, body: ForgetStateStoreBody) -> Response:
    access.require_unbound()
    return answer({"forgotten": await access.manager.forget_state_store(body.url)})
