"""The applications of the recipes, run against the scripted server."""
