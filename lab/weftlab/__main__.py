"""`python -m weftlab lab up`: the lab without the rest of weft's commands."""

import sys

from weftlab.cli import main

sys.exit(main())
