"""`python -m lmk_integrations.cli`."""

import sys

from lmk_integrations.cli import main

sys.exit(main())
