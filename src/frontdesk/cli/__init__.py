"""The command `frontdesk`. It goes through `SessionManager`, like any application.

Its modules import at the top only what `frontdesk --help` needs. A command imports the rest when it runs."""
