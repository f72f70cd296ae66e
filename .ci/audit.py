"""Look up the pinned dependencies in the list of known vulnerabilities: `python .ci/audit.py requirements.lock`.

Fails if one is vulnerable. Where the list cannot be reached, a line says so, and nothing fails.
"""

import json
import subprocess
import sys
from typing import Any

_SECONDS = 120


def verdict(report: dict[str, Any]) -> tuple[bool, list[str]]:
    """Whether nothing is known against the dependencies of a report of pip-audit, and lines to print."""
    checked = [one for one in report["dependencies"] if "skip_reason" not in one]
    if not checked:  # pip-audit calls this a success
        return True, ["dependencies were not audited: no list of vulnerabilities can be reached"]
    lines = [
        f"{one['name']} {one['version']} is vulnerable ({fault['id']}); "
        + (f"update it to {' or '.join(fault['fix_versions'])}" if fault["fix_versions"] else "replace it")
        for one in checked
        for fault in one["vulns"]
    ]
    left_out = len(report["dependencies"]) - len(checked)
    missing = f", {left_out} are not listed" if left_out else ""
    return not lines, [*lines, f"{len(checked)} dependencies audited{missing}"]


def audit(file: str) -> tuple[bool, list[str]]:
    """Run pip-audit over pinned versions."""
    options = ["--disable-pip", "--no-deps", "--progress-spinner=off", "--format=json", f"--requirement={file}"]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pip_audit", *options], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return True, [f"dependencies were not audited: no answer within {_SECONDS} s"]
    if "No module named pip_audit" in done.stderr:
        return False, ["pip-audit is not installed; run make install"]
    try:
        report = json.loads(done.stdout)
    except ValueError:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        return True, [f"dependencies were not audited: {reason[:200]}"]
    return verdict(report)


if __name__ == "__main__":
    fine, text = audit(sys.argv[1])
    print(*text, sep="\n")
    sys.exit(not fine)
