"""Open one published figure in this process: `python open_published.py <paper>/<figure> <profile>`.

The notebook's code cells are run one after the other, as papermill would run them.
"""

import sys

import matplotlib as mpl

from reproduce import catalogue, sources


def main(figure_id, profile):
    """Run the cells with the parameters of the profile."""
    mpl.use("agg")
    entry = catalogue.figure(figure_id)
    values = entry.parameters(profile)
    names = {"__name__": "__main__"}
    for cell in sources.read(entry.notebook)["cells"]:
        if cell["cell_type"] == "code":
            exec(compile(sources.text(cell), cell["id"], "exec"), names)
            if "parameters" in cell["metadata"].get("tags", []):
                names |= values


if __name__ == "__main__":
    main(*sys.argv[1:])
