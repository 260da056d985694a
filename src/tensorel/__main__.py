"""``python -m tensorel``."""

import sys

from tensorel.cli import main

sys.exit(main())
