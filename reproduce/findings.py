"""Findings written by hand, `reproduce/papers/<paper>/findings.md`, with numbers filled from the ledger.

A file begins with a few facts in TOML between two lines `+++`, and goes on with the sections `SECTIONS` as
Markdown. No number and no verdict of ours is typed: a placeholder stands in its place.

    {claim:random_participation/fig1/order:ours}       our value or finding, with a link to its section; as
                                                       "Ours" with a capital letter
    {claim:random_participation/fig1/order:short}      the same up to its first full stop or semicolon
    {claim:random_participation/fig1/order:verdict}    the verdict, which links to its section
    {claim:random_participation/fig1/order:=holds}     the same; a sentence that fits this verdict only
    {claim:random_participation/fig1/order:reason}     also where, paper, quote, statement, tolerance
    {count:random_participation:holds}                 how many of the paper's claims have a verdict; "all"
    {list:random_participation:undecided,not tested}   the claims with these verdicts, by their reasons

What does not fit the ledger is told (`problems`): an unknown claim or word, and a verdict that is not the one
that the sentence was written for.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reproduce import paths
from reproduce.notation import symbols

FILE = "findings.md"
"""The name of the file in a paper's folder."""

SECTIONS = (
    "In short",
    "What the paper claims",
    "What stands",
    "What falls",
    "What an attacker can do",
    "What is repaired",
    "What could not be tested",
    "What was easy",
    "What was hard",
)
"""The sections of a file, all of them, in this order."""

_FACTS: dict[str, type] = {
    **{"picture": str, "central": list, "authors": list, "reference": str},
    **{"year": int},
}
_TEXTS = ("reason", "where", "paper", "quote", "statement", "tolerance")
PLACEHOLDER = re.compile(r"\{(claim|count|list):([^{}:]*):([^{}]*)\}")


class FindingsError(ValueError):
    """A file of findings is ill-formed; the message names it."""


@dataclass(frozen=True)
class Findings:
    """What is written about a paper.

    Attributes:
        paper: its key.
        picture: the figure whose headline picture carries the finding.
        central: the claims, without the paper's key, on which the paper stands.
        authors: of the paper.
        reference: its address.
        year: in which it appeared.
        sections: title -> text with placeholders.
    """

    paper: str
    picture: str
    central: tuple[str, ...]
    authors: tuple[str, ...]
    reference: str
    year: int
    sections: Mapping[str, str]


def read(paper: str) -> Findings | None:
    """The findings on a paper; None where nobody has written any.

    Raises:
        FindingsError: the file is ill-formed.
    """
    path = paths.PAPERS / paper / FILE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    parts = text.split("+++\n", 2)
    if len(parts) != 3 or parts[0].strip():
        raise FindingsError(f"{path}: must begin with facts between two lines +++")
    try:
        facts = tomllib.loads(parts[1])
    except tomllib.TOMLDecodeError as problem:
        raise FindingsError(f"{path}: {problem}") from None
    if {key: type(value) for key, value in facts.items()} != _FACTS:
        wanted = ", ".join(f"{key} ({kind.__name__})" for key, kind in _FACTS.items())
        raise FindingsError(f"{path}: the facts must be {wanted}")
    _, *found = re.split(r"^## (.*)$", parts[2], flags=re.MULTILINE)
    sections = {
        title.strip(): body.strip() for title, body in zip(found[::2], found[1::2], strict=True)
    }
    if tuple(sections) != SECTIONS:
        raise FindingsError(f"{path}: the sections must be {'; '.join(SECTIONS)}")
    lists = {key: tuple(facts[key]) for key in ("central", "authors")}
    return Findings(paper, facts["picture"], **lists, **_rest(facts), sections=sections)


def _rest(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {key: facts[key] for key in ("reference", "year")}


@dataclass
class Filling:
    """The rows of the ledger, by which placeholders are filled.

    Attributes:
        rows: the rows by full id.
        problems: what did not fit, in the order in which it was met.
    """

    rows: Mapping[str, Mapping[str, Any]]
    problems: list[str] = field(default_factory=list)

    def fill(self, text: str, base: str, origin: str) -> str:
        """`text` with its placeholders filled.

        Args:
            text: Markdown.
            base: what leads from the place of the text to the root, such as "../../"; "" at the root.
            origin: what the text is, for problems.
        """
        return PLACEHOLDER.sub(lambda found: self._one(found, base, origin), text)

    def verdict(self, claim_id: str, base: str) -> str:
        """The verdict on a claim, with a link to its section."""
        row = self.rows[claim_id]
        return f"[{row['verdict']}]({base}{row['link']})"

    def _one(self, found: re.Match[str], base: str, origin: str) -> str:
        kind, name, word = found.groups()
        if kind == "claim":
            return self._claim(name, word, base, origin)
        own = [r for r in self.rows.values() if r["figure"].split("/")[0] == name]
        wanted = [one.strip() for one in word.split(",")]
        if not own:
            return self._problem(f"{origin}: no paper {name!r}")
        if kind == "count":
            return str(sum(not r["own"] and (word == "all" or r["verdict"] in wanted) for r in own))
        return self._list([r for r in own if r["verdict"] in wanted], base)

    def _claim(self, name: str, word: str, base: str, origin: str) -> str:
        row = self.rows.get(name)
        if row is None:
            near = difflib.get_close_matches(name, self.rows, n=1, cutoff=0)
            return self._problem(f"{origin}: no claim {name!r} (the nearest: {', '.join(near)})")
        if word == "verdict" or word.startswith("="):
            fits = word == "verdict" or row["verdict"] in word[1:].split("|")
            if not fits:
                told = f"{origin}: written for {name} {word[1:]}, the ledger has {row['verdict']}"
                self._problem(told)
            return self.verdict(name, base)
        if word.lower() in ("ours", "short"):
            ours = row["ours"] if word.lower() == "ours" else _start(row["ours"])
            return f"{_capital(word, in_symbols(ours))} ([section]({base}{row['link']}))"
        if word.lower() in _TEXTS:
            write = plain if word.lower() == "quote" else in_symbols
            return _capital(word, write(row[word.lower()]))
        return self._problem(f"{origin}: {name}: unknown word {word!r}")

    def _problem(self, told: str) -> str:
        if told not in self.problems:
            self.problems.append(told)
        return "(unknown)"

    def _list(self, rows: Iterable[Mapping[str, Any]], base: str) -> str:
        """The rows as a list of Markdown, those with one verdict and reason in one item."""
        groups: dict[tuple[str, str], list[str]] = {}
        for row in rows:
            name = row["id"].split("/", 1)[1]
            link = f"[{name}]({base}{row['link']})"
            groups.setdefault((row["verdict"], row["reason"]), []).append(link)
        items = [
            f"* {verdict}: {', '.join(links)}{f': {in_symbols(reason)}' if reason else ''}"
            for (verdict, reason), links in sorted(groups.items())
        ]
        return "\n".join(items) or "* none"


def _start(text: str) -> str:
    """The text up to the first full stop or semicolon that is in no brackets."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter in ";." and depth <= 0 and not text[place + 1 : place + 2].strip():
            return text[:place]
    return text


def _capital(word: str, text: str) -> str:
    """The text, with a capital letter where the word has one."""
    return text[:1].upper() + text[1:] if word[0].isupper() else text


def plain(text: str) -> str:
    """A text of the ledger that Markdown shows as it is."""
    return re.sub(r"([*~\[\]`|])", r"\\\1", " ".join(text.split())).replace("<", "&lt;")


def in_symbols(text: str) -> str:
    """The same in the notation of the pictures; not for quotations."""
    return plain(symbols(text))


def central(found: Findings, rows: Mapping[str, Mapping[str, Any]]) -> Sequence[str]:
    """The full ids of the central claims that the ledger has."""
    names = [f"{found.paper}/{one}" for one in found.central]
    return [name for name in names if name in rows]


def path_of(paper: str) -> Path:
    """Where the findings on a paper are written."""
    return paths.PAPERS / paper / FILE
