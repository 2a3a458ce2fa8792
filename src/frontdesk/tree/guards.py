"""Pure: decides whether a plan may still be applied, and computes the values that it sets, for all stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontdesk.errors import SessionExistsError, TurnLostError
from frontdesk.store import NewSession, Plan, SessionRow


def check(plan: Plan, rows: Sequence[SessionRow | None], turn: int | None) -> SessionRow | None:
    """The session that a plan is for, as it is now; None if a guarded session has changed since the plan was made.

    `rows` are the guarded sessions in their order, `turn` is the number under which the turn of the first one is held
    (wanted only with a `fence`). Raises `TurnLostError` if the plan's fence does not hold."""
    session = rows[0]
    if plan.fence is not None and session is not None:
        check_fence(session.id, plan.fence, turn)
    if session is None or (plan.head is not None and plan.head != session.head):
        return None
    unchanged = all(
        row is not None and row.revision == revision for row, (_, revision) in zip(rows, plan.guards, strict=True)
    )
    return session if unchanged else None


def check_fence(session_id: str, fence: int, turn: int | None) -> None:
    """Raises `TurnLostError` unless `turn`, the number under which the turn of a session is held, is the fence."""
    if fence != turn:
        raise TurnLostError(session_id, fence)


def made_by(plan: Plan) -> list[NewSession]:
    """The sessions that a plan makes."""
    fork = None if plan.fork is None else plan.fork.session
    return [new for new in (fork, plan.create) if new is not None]


def check_free(plan: Plan, session: SessionRow, new: NewSession, taken: int | None) -> None:
    """Raises `SessionExistsError` if the id or the key of a session that the plan makes is taken (by the session with
    the number `taken`), unless it is a key that the plan itself takes from its session."""
    frees_key = plan.set.get("key_current") is False and new.id != session.id
    if taken is not None and not (frees_key and taken == session.number):
        raise SessionExistsError(new.id, new.namespace)


def new_values(plan: Plan, session: SessionRow) -> dict[str, Any]:
    """The columns of the session's row that a plan changes, with their new values. Places are `Place`s; its revision,
    its tree and whether it takes its key are not among them."""
    return {**plan.set, **{name: getattr(session, name) + amount for name, amount in plan.add.items()}}
