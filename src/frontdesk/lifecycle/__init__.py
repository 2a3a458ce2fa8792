"""How sessions live and end: status and thresholds, leases, hooks, daily notes."""
