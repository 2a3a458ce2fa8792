"""Tests of the HTTP server, through real connections."""
