"""The benchmark: Frontdesk beside raw SQL and its peers, judged against the targets of the design."""
