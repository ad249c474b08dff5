"""Write certificates: rational points that contradict a paper, for `reproduce.certify` to check.

Each paper lists its points in `reproduce/papers/<paper>/certificates.py`. The numbers are what the checker computes;
it refuses a point that contradicts nothing. Run `python -m reproduce.certificates` to write all of them again.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext

from flint import arb, fmpq

from repro.atomic import write_text
from reproduce import certify, paths

__all__ = ["Point", "document", "half_line", "main", "points", "shown"]

PAPERS = tuple(certify.PAPERS)


def half_line(bound: str, *, outcome: str = "output", below: bool = False) -> dict[str, list]:
    """The event that the one noisy number beside an outcome is at least (or at most) the bound."""
    return {outcome: [["-inf", bound] if below else [bound, "inf"]]}


@dataclass(frozen=True)
class Point:
    """One certificate before its numbers are known.

    Attributes:
        name: the claim's id, with "--<variant>" for further certificates of it.
        says: what the numbers are, in words without digits.
        parameters: rational numbers as text, or lists of them.
        event: of a privacy claim, outcome -> an interval for each noisy number.
        P, Q: laws, where the checker does not make them from the parameters.
    """

    name: str
    says: str
    parameters: Mapping[str, str | list]
    event: Mapping[str, list] | None = None
    P: Sequence[Mapping] = field(default=())
    Q: Sequence[Mapping] = field(default=())


def shown(value: object) -> str:
    """A number with 20 significant digits."""
    with localcontext(prec=certify.DIGITS):
        found = +Decimal(arb(value).str(certify.DIGITS + 15, radius=False))
    places = certify.DIGITS if found == 0 else certify.DIGITS - 1 - found.adjusted()
    return f"{found:.{max(places, 1)}f}"


def _law(law: Mapping[certify.Part, fmpq]) -> list[dict]:
    """A law as certificates write it."""
    result = []
    for part, weight in law.items():
        entry: dict = {"weight": str(weight)}
        if part.outcome != "output":
            entry["outcome"] = part.outcome
        if part.mean:
            entry |= {"mean": [str(x) for x in part.mean], part.noise: str(part.width)}
        result.append(entry)
    return result


def document(paper: str, point: Point) -> dict:
    """The content of a certificate's file.

    Raises:
        ValueError: the point contradicts nothing.
    """
    claim = f"{paper}/derivations/{point.name.split('--')[0]}"
    file: dict = {"claim": claim, "says": point.says, "parameters": dict(point.parameters)}
    if point.event is not None:
        laws: list = [point.P, point.Q]
        values = {key: certify.rational(value) for key, value in point.parameters.items()}
        said = certify.PAPERS[paper](point.name, certify.Values(**values))
        if said.laws:
            laws = [_law(law) for law in said.laws]
        file |= {"P": laws[0], "Q": laws[1], "event": dict(point.event)}
    numbers = certify.numbers_of(f"{paper}/{point.name}", file | {"numbers": {}})
    return file | {"numbers": {name: shown(value) for name, value in numbers.items()}}


def points(paper: str) -> list[Point]:
    """The points of one paper."""
    return importlib.import_module(f"reproduce.papers.{paper}.certificates").POINTS


def main() -> None:
    """Write the certificates of every paper, and remove those that are listed no longer."""
    for paper in PAPERS:
        folder = paths.FIGURES / paper / "certificates"
        folder.mkdir(parents=True, exist_ok=True)
        files = {f"{point.name}.json": document(paper, point) for point in points(paper)}
        for old in set(folder.glob("*.json")) - {folder / name for name in files}:
            old.unlink()
        for name, file in files.items():
            text = json.dumps(file, indent=1, ensure_ascii=False) + "\n"
            write_text(folder / name, text)


if __name__ == "__main__":
    main()
