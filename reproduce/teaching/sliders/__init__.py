"""Sliders that tell the truth: every position of every slider shows bounds that hold there.

The numbers come from a grid that `python -m reproduce.teaching.sliders` computes with the library and keeps in
`notebooks/walkthroughs/sliders/`. One script of ours draws them, in the lessons (`show`) and in pages that
need no kernel and no network (`write`).

Between two grid points a page shows what is worse there: of the corners of the cell the largest upper bound
and the smallest lower bound. That is right where the true value rises or falls along each slider. Each
lesson's module says why it does.
"""

from reproduce.teaching.sliders.pages import write
from reproduce.teaching.sliders.widget import show

__all__ = ["show", "write"]
