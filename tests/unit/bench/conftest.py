"""The bench lies at the root of the repository, which is no place to import from otherwise."""

from __future__ import annotations

import sys

from support.paths import ROOT

if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
