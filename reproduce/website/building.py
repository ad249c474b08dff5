"""Build the site: gather the pages, then let Sphinx turn them into HTML. Nothing is executed."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from repro.atomic import write_text
from reproduce import paths
from reproduce.teaching import editions
from reproduce.website import gathering

SITE = paths.BUILD / "site"
"""The finished site."""

PAGES = paths.BUILD / "site-pages"
"""What Sphinx reads."""

DOCTREES = paths.BUILD / "site-doctrees"
"""What Sphinx keeps from one build to the next."""

EXTRA = paths.BUILD / "site-extra"
"""Files that go to the root of the site as they are."""


class SiteError(RuntimeError):
    """Sphinx found a fault; what it printed says which."""


def build(jobs: int) -> Path:
    """Build the site, only what changed of it, and return its first page.

    Args:
        jobs: processes at a time, at least 1.

    Raises:
        SiteError: Sphinx warned of something or failed.
        WriteError: a page cannot be written.
    """
    _forget(_code())
    sliders = _sliders()
    for name in gathering.gather(PAGES, sliders):
        (SITE / name).with_suffix(".html").unlink(missing_ok=True)
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q"]
    command += ["-j", str(jobs), "-d", str(DOCTREES), "-c", str(paths.ROOT / "site")]
    command += ["-D", f"html_extra_path={EXTRA}"] if sliders else []
    done = subprocess.run([*command, str(PAGES), str(SITE)], cwd=paths.ROOT, check=False)
    if done.returncode:
        shutil.rmtree(DOCTREES, ignore_errors=True)  # else the next build is silent on these pages
        raise SiteError("the site was not built: see the warnings of Sphinx above")
    return SITE / "index.html"


def _code() -> str:
    """A hash of what turns pages into HTML."""
    files = [
        *(paths.ROOT / "site").glob("*.py"),
        *Path(__file__).parent.glob("*.py"),
        paths.ROOT / "requirements.lock",
    ]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(files))).hexdigest()


def _forget(code: str) -> None:
    """Drop what Sphinx keeps when it comes from other code or other packages, and finished pages with it."""
    stamp = DOCTREES / "code"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != code:
        for folder in (DOCTREES, SITE):
            shutil.rmtree(folder, ignore_errors=True)
        write_text(stamp, code)


def _sliders() -> dict[str, str]:
    """Write the pages of sliders where the workbook has some: name of a lesson -> address."""
    if find_spec("reproduce.teaching.sliders") is None:
        return {}
    from reproduce.teaching import sliders

    folder = EXTRA / "sliders"
    sliders.write(folder)
    names = (path.stem for path in editions.lessons())
    return {name: f"sliders/{name}.html" for name in names if (folder / f"{name}.html").is_file()}
