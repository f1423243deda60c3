"""`python -m weftcheck`."""

import sys

from weftcheck.cli import main

sys.exit(main())
