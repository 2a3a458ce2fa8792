"""A session service for Google's Agent Development Kit:
`Runner(..., session_service=FrontdeskSessionService(manager))`."""

from frontdesk.integrations.google_adk.service import FrontdeskSessionService

__all__ = ["FrontdeskSessionService"]
