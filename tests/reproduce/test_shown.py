"""The ladder: which profile's verdict counts, which picture is shown first."""

import json

import pytest

import workbooks
from reproduce import catalogue, gallery, paths, results, runner, shown, state
from reproduce.destination import Destination
from reproduce.records import ONLY_PUBLISHED, TaskError
from reproduce.tasks import Task, run_tasks


@pytest.fixture
def toy(tmp_path, monkeypatch):
    workbooks.build(tmp_path, monkeypatch)
    publish("desk")
    return tmp_path


def publish(profile):
    """Let a profile of fig1 have published runs."""
    folder = paths.PUBLISHED / "toy/fig1" / profile
    folder.mkdir(parents=True)
    (folder / "0.json").write_text("{}")


def result(profile, **verdicts):
    """The files of a finished run in which the claims have these verdicts."""
    path = Destination("toy/fig1", profile, published=True).file("json")
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            **dict.fromkeys(
                ("statement", "paper", "tolerance", "ours", "where", "reason", "cell"), ""
            )
        }
        | {"id": name, "verdict": verdict}
        for name, verdict in verdicts.items()
    ]
    record = {"id": "toy/fig1", "profile": profile, "complete": True, "claims": rows}
    record |= {"parameters": {}, "data_source": "none", "notebook": "x", "reduced": ""}
    path.write_text(json.dumps(record))
    path.with_suffix(".png").write_bytes(b"picture")


@pytest.mark.parametrize(
    ("quick", "desk", "used"),
    [
        ("reproduced", "differs", "desk"),
        ("reproduced", "undecided", "desk"),
        ("reproduced", "not tested", "quick"),
        ("not tested", "not tested", "desk"),
        ("not tested", "reproduced", "desk"),
        ("reproduced", "not yet", "quick"),
        ("not tested", "not yet", "quick"),
        ("not yet", "not yet", "desk"),
    ],
)
def test_the_highest_profile_that_tests_a_claim_decides_it(toy, quick, desk, used):
    result("quick", order=quick)
    result("desk", order=desk)
    entry = catalogue.figure("toy/fig1")
    found = shown.results(entry, paths.FIGURES)
    assert list(found) == ["quick", "desk"]
    assert shown.deciding(found, "order") == used
    row = next(r for r in results.result(entry).rows if r["id"] == "toy/fig1/order")
    assert row["verdict"] == {"quick": quick, "desk": desk}[used]
    assert row["verdicts"] == {"quick": quick, "desk": desk} and row["profile"] == used


def test_the_headline_is_the_picture_of_the_highest_profile_that_decides(toy):
    result("quick", double="reproduced", order="not tested")
    entry = catalogue.figure("toy/fig1")
    assert results.result(entry).headline == "quick"
    result("desk", double="not tested", order="not tested")
    assert results.result(entry).headline == "quick"  # desk decides nothing
    result("desk", double="not tested", order="undecided")
    assert results.result(entry).headline == "desk"
    assert 'src="figures/toy/fig1.desk.png"' in gallery.gallery()
    text = shown.headline(entry)._repr_markdown_()
    assert "](../../figures/toy/fig1.desk.png)" in text
    assert "| double: twice sigma | reproduced | quick |" in text
    assert "| order: the line \\| rises | undecided | desk |" in text


def test_a_figure_without_results_has_an_empty_headline(toy):
    entry = catalogue.figure("toy/fig1")
    assert shown.headline_profile(entry, {}) == ""
    assert "no finished run" in repr(shown.headline(entry))


def test_an_unpublished_profile_does_not_count(toy):
    result("quick", order="reproduced")
    result("paper", order="differs")
    assert list(shown.results(catalogue.figure("toy/fig1"), paths.FIGURES)) == ["quick"]


def test_make_all_opens_the_published_profiles_too(toy, capsys):
    entries = [catalogue.figure("toy/fig1")]
    workbooks.edit_notebook(
        paths.NOTEBOOKS / "toy/fig1.ipynb",
        "y = [",
        f'import os\nprint(profile, os.environ.get("{ONLY_PUBLISHED}"))\ny = [',
    )
    assert runner.run(entries, "quick", 1) == 0
    for name in ("fig1", "fig1.desk"):
        assert (paths.FIGURES / f"toy/{name}.png").is_file()
        assert json.loads((paths.FIGURES / f"toy/{name}.json").read_text())["complete"]
    texts = [
        Destination("toy/fig1", profile, published=True).executed.read_text()
        for profile in ("quick", "desk")
    ]
    assert "quick None" in texts[0] and "desk 1" in texts[1]
    capsys.readouterr()
    assert runner.run(entries, "quick", 1) == 0
    assert "0 run, 2 up to date" in capsys.readouterr().out
    assert runner.run(entries, "desk", 1) == 0  # a run of one's own leaves the committed files
    assert (paths.BUILD / "figures/toy/fig1.desk.json").is_file()
    assert not state.reasons(
        Destination("toy/fig1", "desk", published=True),
        state.read(Destination("toy/fig1", "desk", published=True))["parts"],
    )


def test_published_evidence_is_opened_and_never_computed(toy, monkeypatch):
    with open(workbooks.catalogue_file(), "a") as stream:
        stream.write('[tasks]\ngood = "nowhere:good"\n')
    monkeypatch.setenv(ONLY_PUBLISHED, "1")
    with pytest.raises(TaskError, match="1 runs are not published"):
        run_tasks([Task("toy/good", {"x": 1}, 0)])
