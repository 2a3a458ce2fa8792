"""A session service for Google's Agent Development Kit:
`Runner(..., session_service=FrontdeskSessionService(manager))`."""

from frontdesk.extras import needs_extra

with needs_extra(__name__, "google-adk"):
    from frontdesk.integrations.google_adk.service import FrontdeskSessionService

__all__ = ["FrontdeskSessionService"]
