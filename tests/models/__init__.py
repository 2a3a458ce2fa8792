"""Models over real HTTP: a scripted server that others may use too, and the tests of `frontdesk.models`."""
