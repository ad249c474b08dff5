"""Settings of Sphinx for the site; `make site` gathers the pages and calls Sphinx with them.

Nothing is executed, no page asks the network for anything, and every warning is an error.
"""

project = "Privacy amplification in federated learning"
author = "The maintainers of the workbook"
project_copyright = ""
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "reproduce.website.extension",
]

nb_execution_mode = "off"
nb_ipywidgets_js = {}  # the default asks a content network for scripts
nb_merge_streams = True
nb_render_markdown_format = "myst"  # outputs have formulas and links, too
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_dmath_double_inline = True
smartquotes = False  # titles stay as they are written, so that their anchors do
suppress_warnings = ["myst.header"]  # a lesson's plan for teachers is two levels below its title

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False  # what stands before a colon below "Returns:" is prose, not a type

html_theme = "furo"
html_title = "Privacy amplification: a workbook"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_math_renderer = "mathml"
pygments_style = "default"
pygments_dark_style = "github-dark"
