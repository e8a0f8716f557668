"""`python -m shardward`: the command line, for where no script is installed."""

from .cli.main import main

main()
