"""The catalogue: what it holds, and one clear error for whatever is wrong in it."""

import re

import pytest

import workbooks
from reproduce import catalogue, parameters, paths


@pytest.fixture
def toy(tmp_path, monkeypatch):
    return workbooks.build(tmp_path, monkeypatch)


DESK = "[figures.fig1.parameters.desk]\n"


def write(text: str) -> None:
    workbooks.catalogue_file().write_text('title = "A toy"\n' + text)


FIGURE = '[figures.fig1]\ntitle = "a line"\nnotebook = "notebooks/toy/fig1.ipynb"\n'
CLAIM = '[[figures.fig1.claims]]\nid = "a"\nkind = "order"\nwhere = "1"\nstatement = "rises"\n'


def test_profiles_override_the_quick_values(toy):
    entry = catalogue.figure("toy/fig1")
    assert entry.parameters("quick") == {"profile": "quick", "sigma": 2.0, "rounds": 3}
    assert entry.parameters("desk") == {"profile": "desk", "sigma": 2.0, "rounds": 30}
    assert entry.parameters("long") == {"profile": "long", "sigma": 2.0, "rounds": 3}
    assert entry.parameters("paper") == {"profile": "paper", "sigma": 2.0, "rounds": 3}
    assert [claim.id for claim in entry.claims] == ["double", "order"]
    assert entry.notebook == toy / "notebooks/toy/fig1.ipynb"
    assert catalogue.paper_title("toy") == "A toy paper"


def test_the_quick_values_are_those_of_the_notebook(toy):
    entry = catalogue.figure("toy/fig1")
    entry.parameters("quick")["sigma"] = "spoilt by a caller"
    assert entry.parameters("quick")["sigma"] == 2.0
    workbooks.edit_notebook(entry.notebook, "sigma = 2.0", "sigma = 2.25")
    assert entry.parameters("quick")["sigma"] == entry.parameters("desk")["sigma"] == 2.25


def test_papers_are_the_folders_with_a_catalogue(toy):
    (paths.PAPERS / "draft").mkdir()
    (paths.PAPERS / "draft" / "runs.py").touch()
    (paths.PAPERS / "statistics.py").touch()
    assert catalogue.papers() == ["toy"]


def test_tasks_have_names_of_their_own(toy):
    write('[tasks]\ntraining = "toyruns:good"\nattack = "toyruns.more:bad"\n' + FIGURE)
    assert catalogue.tasks() == {
        "toy/training": "toyruns:good",
        "toy/attack": "toyruns.more:bad",
    }
    assert catalogue.task_function("toy/attack") == "toyruns.more:bad"
    with pytest.raises(
        catalogue.CatalogueError,
        match="^unknown task 'toy/trainig'; known: toy/training, toy/attack$",
    ):
        catalogue.task_function("toy/trainig")


def test_figures_are_sorted_by_number(toy):
    names = ["fig10", "table1", "fig2", "fig9", "derivations"]
    write("".join(FIGURE.replace("fig1", name) for name in names))
    found = [entry.name for entry in catalogue.figures()]
    assert found == ["derivations", "fig2", "fig9", "fig10", "table1"]
    assert [entry.name for entry in catalogue.select(["toy/fig9", "toy"])][:2] == [
        "fig9",
        "derivations",
    ]


PART = 'part_of = "fig1"\n'


def test_a_part_carries_the_ids_of_its_whole_and_follows_it(toy):
    names = ["fig1", "fig1-z", "fig1-b", "fig0"]
    write("".join(FIGURE.replace("figures.fig1", f"figures.{n}") + PART * ("-" in n) + CLAIM.replace(
        "figures.fig1", f"figures.{n}").replace('"a"', f'"{n}"') for n in names))  # fmt: skip
    assert [entry.name for entry in catalogue.figures()] == ["fig0", "fig1", "fig1-z", "fig1-b"]
    parts = catalogue.parts(catalogue.figure("toy/fig1"))
    assert [claim.full_id for part in parts for claim in part.claims] == [
        "toy/fig1/fig1",
        "toy/fig1/fig1-z",
        "toy/fig1/fig1-b",
    ]
    assert [(part.id, part.whole) for part in parts[1:2]] == [("toy/fig1-z", "toy/fig1")]
    assert catalogue.parts(parts[1]) == []


def test_data_per_profile_or_for_all(toy):
    write(FIGURE + 'data = ["a"]')
    assert catalogue.figure("toy/fig1").data("quick") == ("a",)
    write(FIGURE + 'data = { desk = ["a", "b"] }')
    entry = catalogue.figure("toy/fig1")
    assert (entry.data("quick"), entry.data("desk")) == ((), ("a", "b"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[figures.fig1]\nnotebook = 'a.ipynb'", "figures.fig1: `title` is missing"),
        ("[figures.fig1]\ntitle = 'a'", "figures.fig1: `notebook` is missing"),
        (FIGURE + "colour = 1", "figures.fig1: unknown key colour; known: title, notebook"),
        (FIGURE + "rtol = -1.0", r"figures.fig1.rtol must be a number >= 0, got -1.0"),
        (FIGURE + "rtol = 'small'", "figures.fig1.rtol must be of type int or float, got 'small'"),
        (FIGURE + "rtol = true", "figures.fig1.rtol must be of type int or float, got True"),
        (FIGURE + "runs = 'somewhere'", "runs must be 'module:function', got 'somewhere'"),
        ("[tasks]\ntraining = 'somewhere'", "tasks.training must be 'module:function', got 'some"),
        ("[tasks]\n'a b' = 'm:f'", "tasks.a b: the name must be letters, digits and _"),
        ("tasks = 'm:f'", "`tasks` must be a table"),
        (FIGURE + "data = [1]", "data must hold lists of names"),
        (
            FIGURE + "data = { dsk = [] }",
            "data: unknown profile dsk; known: quick, desk, long, paper",
        ),
        (
            FIGURE + "[figures.fig1.tolerances]\n'a.b' = -1",
            "tolerances.'a.b' must be a number >= 0",
        ),
        (FIGURE + CLAIM + CLAIM, "claims, entry 2: id 'a' is there twice"),
        (FIGURE + CLAIM.replace('"order"', '"mood"'), "claims, entry 1: .*kind 'mood' is none of"),
        (FIGURE + CLAIM + "colour = 1", "claims, entry 1: .*unknown key colour"),
        (FIGURE + CLAIM.replace("id =", "name ="), "claims, entry 1: .*name"),
        (FIGURE + "[figures.fig1.parameters.dsk]", "parameters: unknown profile dsk"),
        (
            FIGURE + "[figures.fig1.parameters.quick]\nn = 1",
            "parameters.quick: the quick values stand in the notebook's parameters cell",
        ),
        (FIGURE + DESK + "profile = 'a'", "`profile` is set by the runner"),
        (FIGURE + "parameters = { desk = 1 }", "parameters.desk must be a table"),
        (FIGURE.replace("notebooks/", "../"), "notebook must be an .ipynb file of the project"),
        ("figures = 3", "`figures` must be a table"),
        ("colour = 1", "unknown key colour; known: figures, tasks, title"),
        ("[figures.fig1\n", "catalogue.toml: "),
    ],
)
def test_one_error_that_names_file_and_key(toy, text, message):
    write(text)
    with pytest.raises(catalogue.CatalogueError, match=message) as caught:
        catalogue.figures()
    assert str(workbooks.catalogue_file()) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("sgima = 1.0", "parameters.desk: unknown parameter sgima; known: profile, rounds, sigma"),
        (
            "rounds = 1.5",
            "parameters.desk: parameter rounds must be of type int .such as 3., got float 1.5",
        ),
    ],
)
def test_overrides_have_the_names_and_types_of_the_notebook(toy, values, message):
    write(FIGURE + DESK + values)
    entry = catalogue.figure("toy/fig1")
    with pytest.raises(catalogue.CatalogueError, match=message) as caught:
        entry.parameters("desk")
    assert str(workbooks.catalogue_file()) in str(caught.value)
    assert entry.parameters("quick")["rounds"] == 3
    entry.notebook.unlink()
    with pytest.raises(catalogue.CatalogueError, match="no such notebook: .*fig1.ipynb"):
        entry.parameters("quick")


@pytest.mark.parametrize("name", ["toy/fig2", "toi/fig1", "toy"])
def test_unknown_figure(toy, name):
    with pytest.raises(catalogue.CatalogueError, match=f"unknown figure '{name}'; "):
        catalogue.figure(name)


def test_unknown_profile(toy):
    with pytest.raises(
        catalogue.CatalogueError, match="profile 'fast' is none of quick, desk, long, paper"
    ):
        catalogue.figure("toy/fig1").parameters("fast")


def test_the_parameters_cell_is_read_without_running_it(toy):
    notebook = toy / "notebooks/toy/fig1.ipynb"
    assert parameters.declared(notebook) == {"profile": "quick", "sigma": 2.0, "rounds": 3}
    rows = [("a", "params", "x: float = -1e-5\ny = [1, 2]\nz = None"), ("b", "code", "w = 1")]
    workbooks.write_notebook(notebook, rows)
    assert parameters.declared(notebook) == {"x": -1e-5, "y": [1, 2], "z": None}
    workbooks.write_notebook(notebook, rows[1:])
    with pytest.raises(
        parameters.ParameterError, match="needs one cell tagged `parameters`, has 0"
    ):
        parameters.declared(notebook)


@pytest.mark.parametrize(
    ("value", "model", "problem"),
    [
        (1, 1.0, ""),
        (1.0, 1, "must be of type int"),
        ("1e-5", 1e-5, "must be of type float .such as 1e-05., got str '1e-5'"),
        (True, 1, "must be of type int"),
        (1, True, "must be of type bool"),
        ([1, 2], [3], ""),
        ([1, "2"], [3], "has an item that must be of type int"),
        (3, [3], "must be a list"),
        ([], [3], ""),
        (None, 1.0, "must be of type float"),
    ],
)
def test_types(value, model, problem):
    found = parameters.type_problem(value, model)
    assert re.match(problem, found) if problem else found == ""


def test_the_committed_catalogue_is_well_formed_and_fits_its_notebooks():
    entries = catalogue.figures()
    assert {entry.id for entry in entries} >= {
        f"random_participation/{name}"
        for name in (
            "fig1",
            "fig2",
            "fig3",
            "fig4",
            "fig5",
            "fig6",
            "fig7",
            "sec6_noise",
            "derivations",
        )
    }
    from reproduce.preparation import preflight

    for profile in catalogue.PROFILES:
        assert {entry.id: preflight(entry, profile) for entry in entries} == dict.fromkeys(
            (entry.id for entry in entries), ""
        )


def test_every_claim_quotes_the_paper_or_is_marked_as_ours():
    claims = [claim for entry in catalogue.figures() for claim in entry.claims]
    assert len(claims) > 400
    assert [one.full_id for one in claims if bool(one.quote.strip()) == one.own] == []
