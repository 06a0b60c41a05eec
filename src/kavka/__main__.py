"""`python -m kavka`: the same as the `kavka` command."""

import sys

from kavka.cli import main

sys.exit(main())
