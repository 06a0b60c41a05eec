"""`PYTHONPATH=tests python -m lint`: the lints that no ready tool knows; exits 1 on findings."""

import sys

from lint import seam_lint, size_lint

found = [*seam_lint.findings(), *size_lint.findings()]
for finding in found:
    print(finding)
sys.exit(1 if found else 0)
