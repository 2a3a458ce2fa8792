"""Storage for Strands agents:
`RepositorySessionManager(id, session_repository=FrontdeskSessionRepository(manager))`, or
`SnapshotSessionManager(id, storage=FrontdeskStorage(manager, key))`.

Strands calls them from several threads and event loops. So both take the manager of `frontdesk.sync`."""

from frontdesk.extras import needs_extra

with needs_extra(__name__, "strands"):
    from frontdesk.integrations.strands.repository import FrontdeskSessionRepository
    from frontdesk.integrations.strands.storage import FrontdeskStorage

__all__ = ["FrontdeskSessionRepository", "FrontdeskStorage"]
