"""Tests of Frontdesk, with the servers and the shared suites that they run on."""
