"""The pages that only the site has: home, lessons, reading order, how to cite; and the guide and the ledger."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from reproduce import catalogue, findings, gallery, paths, reports
from reproduce.teaching import editions
from reproduce.website import books

WORDS_A_MINUTE = 200
"""How fast a text with formulas is taken to be read."""

_PICTURE = re.compile(r'<a href="([^"]+)"><img src="([^"]+)" width="\d+" alt="([^"]*)"></a>')
_RAW = re.compile(r"<!--.*?-->|<[^>]+>|```.*?```|^\|[-:| ]+\|$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\([^)]*\)")


def minutes(text: str) -> int:
    """How long a text takes to read, in minutes, rounded up to a multiple of 5."""
    words = len(_LINK.sub("]", _RAW.sub(" ", text)).split())
    return 5 * max(1, math.ceil(words / WORDS_A_MINUTE / 5))


def parts(readme: str) -> tuple[str, str, str]:
    """The README's introduction, its findings, and the rest without the gallery.

    Raises:
        ValueError: the README lacks the lines that mark findings or gallery.
    """
    opening, first, rest = readme.partition(reports.BEGIN)
    found, second, rest = rest.partition(reports.END)
    before, third, rest = rest.partition(gallery.BEGIN)
    _, fourth, after = rest.partition(gallery.END)
    if not (first and second and third and fourth):
        raise ValueError("the README must hold the lines that mark findings and gallery")
    return opening.partition("\n")[2].strip(), found.strip(), f"{before.strip()}\n{after}"


def home(readme: str, known: Sequence[str]) -> str:
    """The first page: what the workbook is, where things are, and what was found on every paper."""
    opening, found, rest = parts(readme)
    found = _PICTURE.sub(r"[![\3](\2)](\1)", found)
    for paper in known:
        found = found.replace(f"(#gallery-{paper})", f"(figures/{paper}/{reports.FILE}#Figures)")
    legend = rest.partition("\n## ")[0].strip().replace("(#figures)", "(#Findings)")
    cards = [
        ("Lessons", "lessons", "Six lessons with exercises, games and answers that fold out"),
        ("Reading order", "reading", "Where to begin, and how long each part takes"),
        ("Ledger", "figures/CLAIMS", "Every claim with its verdict; search and filter them"),
        ("Accountants", "api/accounting", "How much noise your federation needs, from Python"),
    ]
    lines = ["# Privacy amplification in federated learning: a workbook", "", opening, ""]
    lines += ["::::{grid} 1 2 2 4", ":gutter: 2", ""]
    for name, target, text in cards:
        lines += [f":::{{grid-item-card}} {name}", f":link: /{target}", ":link-type: doc", ""]
        lines += [text, ":::", ""]
    lines += ["::::", "", "## Findings", "", found, "", legend, ""]
    start = ["reading", "lessons", "Ledger <figures/CLAIMS>", "README", "citing"]
    lines += toctree("Start", start)
    lines += toctree("Papers", [f"{p} <figures/{p}/{Path(reports.FILE).stem}>" for p in known])
    guides = sorted(path.stem for path in (paths.ROOT / "docs").glob("*.md"))
    lines += toctree("Python", ["api/index", *(f"docs/{name}" for name in guides), "apps/*/README"])
    lines += toctree("Records", ["docs/conformance/*", "data/embedded/README", "CHANGELOG"])
    return "\n".join(lines)


def toctree(caption: str, entries: Sequence[str]) -> list[str]:
    """A hidden list of pages, which makes the side bar."""
    return ["```{toctree}", ":hidden:", ":glob:", f":caption: {caption}", "", *entries, "```", ""]


def guide(readme: str) -> str:
    """The README without what the home page and the papers' pages show."""
    rest = parts(readme)[2].partition("\n## ")
    return f"# Guide\n\nHow to use the workbook on your own machine.\n\n## {rest[2].strip()}\n"


# Lessons ------------------------------------------------------------------------------------------


def stated(lesson: Path) -> tuple[str, ...]:
    """The first row of the table at the top of a lesson: teaching, exercises, machine."""
    front = books.prose(lesson, lambda cell: "front" in editions.tags(cell))
    rows = [line for line in front.splitlines() if line.startswith("|")]
    return tuple(cell.strip() for cell in rows[2].strip("|").split("|")) if len(rows) > 2 else ()


def paper_of(lesson: Path) -> str:
    """The paper that a lesson leads to: the first one that its last cell links to; "" for none."""
    way_on = books.prose(lesson, lambda cell: "way-on" in editions.tags(cell))
    linked = re.findall(r"\]\(\.\./(\w+)/", way_on)
    return next((name for name in linked if name in catalogue.papers()), "")


def lessons(sliders: Callable[[Path], str]) -> str:
    """The list of lessons.

    Args:
        sliders: lesson -> the address of its page of sliders from the root, or "".
    """
    lines = ["# Lessons", ""]
    lines += [
        "Each lesson takes 45 minutes of teaching and 45 minutes of exercises. An answer, a hint or a solution folds "
        "out when you click on its line. Notes for teachers fold out, too. The lessons are notebooks: "
        "`make teach` writes the learners' edition, in which your answers are checked at once.",
        "",
        "| lesson | teaching | exercises | sliders |",
        "|---|---|---|---|",
    ]
    names = []
    for path in editions.lessons():
        source = path.relative_to(paths.ROOT).as_posix()
        teaching, exercises = (*stated(path), "", "")[:2]
        slide = f'<a href="{sliders(path)}">open</a>' if sliders(path) else ""
        title = findings.plain(books.title(path))
        lines.append(f"| [{title}]({source}) | {teaching} | {exercises} | {slide} |")
        names.append(source.removesuffix(".ipynb"))
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", "", *names, "```", ""])


# Reading order ------------------------------------------------------------------------------------


def reading(known: Sequence[str]) -> str:
    """What to read in which order, and how long it takes."""
    lines = ["# Reading order", ""]
    lines += [
        f"Reading times count {WORDS_A_MINUTE} words a minute and are rounded up to 5 minutes; code, pictures and "
        "checking a formula by hand come on top. The times of lessons are those of teaching and exercises.",
        "",
        "1. [The findings](index.md#Findings) on all five papers, in one page.",
        "2. The first lesson, whoever you are. It says what ε and δ promise, and needs no paper.",
        "3. For the paper that you want: its lesson, then its report, then its derivations.",
        "4. A figure where you doubt a number, and [the ledger](figures/CLAIMS.md) where you look for a claim.",
        "",
        "| step | what | minutes |",
        "|---:|---|---:|",
    ]
    found = _minutes_of(paths.ROOT / "README.md", lambda text: parts(text)[1])
    steps: list[tuple[str, str, int]] = [("The findings", "index.md#Findings", found)]
    # An early lesson may point to a paper, too; the last one that does is about it.
    leading = {paper_of(path): path for path in editions.lessons()}
    general = [path for path in editions.lessons() if path not in leading.values()]
    steps += [_lesson_step(path) for path in general]
    for paper in sorted(known, key=lambda name: leading.get(name, Path("~")).name):
        if paper in leading:
            steps.append(_lesson_step(leading[paper]))
        report = f"figures/{paper}/{reports.FILE}"
        steps.append((f"{paper}: report", report, _minutes_of(paths.ROOT / report)))
        for path in books.of_paper(paper):
            if path.stem.startswith("derivations"):
                source = path.relative_to(paths.ROOT).as_posix()
                title = f"{paper}: {findings.plain(books.title(path))}"
                steps.append((title, source, minutes(books.prose(path))))
    for number, (title, target, spent) in enumerate(steps, 1):
        lines.append(f"| {number} | [{title}]({target}) | {spent} |")
    total = sum(step[2] for step in steps)
    lines += ["", f"All of it takes about {math.ceil(total / 60)} hours.", ""]
    return "\n".join(lines)


def _lesson_step(path: Path) -> tuple[str, str, int]:
    spent = sum(int(number) for cell in stated(path)[:2] for number in re.findall(r"\d+", cell))
    source = path.relative_to(paths.ROOT).as_posix()
    return findings.plain(books.title(path)), source, spent or minutes(books.prose(path))


def _minutes_of(path: Path, part: Callable[[str], str] = str) -> int:
    return minutes(part(path.read_text(encoding="utf-8")))


# Ledger and citation ------------------------------------------------------------------------------

FILTER = """
```{raw} html
<form class="ledger-filter" id="ledger-filter" hidden>
<label>Search <input type="search" name="text" autocomplete="off"></label>
<label>Paper <select name="paper"><option value="">all</option></select></label>
<label>Verdict <select name="verdict"><option value="">all</option></select></label>
<label>Whose <select name="whose"><option value="">all</option><option value="paper">the paper's</option>
<option value="ours">ours</option></select></label>
<button type="reset">Clear</button>
<output aria-live="polite"></output>
</form>
<script src="../_static/ledger.js" defer></script>
```
"""


def ledger(text: str) -> str:
    """The ledger as committed, with the form that filters its tables below the title."""
    title, _, rest = text.partition("\n")
    return f"{title}\n{FILTER}{rest}"


def citing(cff: str) -> str:
    """How to cite the workbook and the papers, from CITATION.cff."""
    cited: dict[str, Any] = yaml.safe_load(cff)
    lines = ["# How to cite", "", "## The workbook", ""]
    lines += [*_bibtex("workbook", cited | {"year": None}), ""]
    lines += [
        "The same for reference managers: [CITATION.cff](CITATION.cff).",
        "",
        "## The papers",
        "",
    ]
    lines += ["Cite the paper whose figures you use, too.", ""]
    for entry in cited.get("references", []):
        family = entry["authors"][0].get("family-names", "paper")
        lines += [*_bibtex(f"{family}{entry.get('year', '')}".lower(), entry), ""]
    return "\n".join(lines)


def _bibtex(key: str, entry: dict[str, Any]) -> list[str]:
    """One entry in the form of BibTeX."""
    kind = {"article": "article", "conference-paper": "inproceedings"}.get(entry["type"], "misc")
    names = [
        f"{one['family-names']}, {one['given-names']}"
        if "family-names" in one
        else f"{{{one['name']}}}"
        for one in entry["authors"]
    ]
    fields = {
        "author": " and ".join(names),
        "title": f"{{{' '.join(entry['title'].split())}}}",
        "booktitle": entry.get("conference", {}).get("name"),
        "journal": entry.get("journal"),
        "year": entry.get("year"),
        "version": entry.get("version"),
        "doi": entry.get("doi"),
        "url": entry.get("url"),
    }
    told = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return ["```bibtex", f"@{kind}{{{key},", *told, "}", "```"]
