"""The web inspector: the built page is package data in `static/`."""

from __future__ import annotations

from pathlib import Path

STATIC = Path(__file__).with_name("static")
"""where the built page is; it does not exist in a checkout until `make page` has built it"""
