"""The command line: `main` and one file a command; what commands share stands beside them."""
