"""Pure decisions about a session's messages: appends, paths, views, plans, forks and leases. No I/O; shared by all
stores."""
