"""What every SQL store does alike, written once: see `database` for the seam."""
