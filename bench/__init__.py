"""The benchmark: Frontdesk compared with raw SQL and its peers, and with the targets of the design."""
