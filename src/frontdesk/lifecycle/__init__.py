"""The life cycle of sessions: status and thresholds, leases, usage entries, daily notes."""
