"""Pure decisions over the shape of a session's messages: paths, views, plans, forks. No I/O; once for all stores."""
