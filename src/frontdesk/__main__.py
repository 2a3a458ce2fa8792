"""`python -m frontdesk` is the command `frontdesk`."""

from frontdesk.cli.entry import main

if __name__ == "__main__":
    main()
