"""`codecheck.yml`: the manifest of outputs for an independent check in the form of CODECHECK 1.0.

It lists every output of the repository with what it shows. Who checks, when, and under which certificate is
for the codechecker to add.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from reproduce import paths
from reproduce.destination import Destination
from reproduce.results import Result

FILE = "codecheck.yml"
"""Its name, at the root."""

_HEAD = """---
# Written by `make ledger`. To check: `make all`, then `git status` shows no change and `make verify` passes.
# The codechecker adds: codechecker, summary, repository, check_time, certificate, report.
version: https://codecheck.org.uk/spec/config/1.0/
paper:
  title: "Privacy amplification in federated learning: a workbook that reproduces five papers"
  authors:
    - name: The maintainers of the workbook
  reference: README.md
"""


def text(papers: Mapping[str, Sequence[Result]], titles: Mapping[str, str]) -> str:
    """The file, from the results of each paper and the titles of the reports."""
    lines = [_HEAD + "manifest:"]
    for paper, items in papers.items():
        lines += _entry(f"figures/{paper}/REPORT.md", f"report: {titles[paper]}")
        for item in items:
            lines += _outputs(item)
    lines += _entry("figures/CLAIMS.md", "every claim with its verdict")
    lines += _entry("figures/claims.json", "the same for machines")
    return "\n".join(lines) + "\n"


def _outputs(item: Result) -> list[str]:
    """The picture and the numbers of a figure, in each profile that has them."""
    lines = []
    for profile in item.records:
        name = Destination(item.entry.id, profile, published=True).name
        for ending, kind in (("png", "picture"), ("json", "numbers and verdicts")):
            if (paths.FIGURES / f"{name}.{ending}").is_file():
                comment = f"{item.entry.id}, {item.entry.title}: {kind}, profile {profile}"
                lines += _entry(f"figures/{name}.{ending}", comment)
    return lines


def _entry(file: str, comment: str) -> list[str]:
    """One item; a JSON string is a string of YAML."""
    return [f"  - file: {file}", f"    comment: {json.dumps(comment, ensure_ascii=False)}"]
