"""Models over real HTTP: a scripted server, also for use by other tests, and the tests of `frontdesk.models`."""
