"""The checks of a built site find what they look for."""

import built_site


def site(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return built_site.pages(folder)


def test_a_link_to_a_missing_file_or_anchor_is_found(tmp_path):
    found = site(
        tmp_path,
        one='<h1 id="a&quot;b">x</h1><a href="two.html#here">1</a> <a href="two.html#gone">2</a>'
        '<a href="three.html">3</a> <a href="#a%22b">4</a> <a href="https://elsewhere.org/#x">5</a>',
        two='<p id="here">y</p>',
    )
    told = [text.partition("one.html: ")[2] for text in built_site.broken(found)]
    assert told == ["two.html#gone: no such anchor", "three.html: no such file"]


def test_what_is_loaded_from_elsewhere_is_found_and_a_link_is_no_load(tmp_path):
    found = site(
        tmp_path,
        page='<script src="//cdn.org/x.js"></script><link rel="stylesheet" href="https://a.org/x.css">'
        '<link rel="next" href="https://b.org/"><a href="https://c.org/">c</a>'
        "<style>@import 'https://d.org/y.css'; p { background: url(https://e.org/z.png) }</style>"
        '<img src="data:image/png;base64,AA"><img src="here.png">',
    )
    (page,) = found.values()
    away = [address for address in page.loaded if built_site.leaves(address)]
    assert away == [
        "//cdn.org/x.js", "https://a.org/x.css", "https://d.org/y.css", "https://e.org/z.png",
    ]  # fmt: skip


def test_the_weight_counts_pictures_and_what_style_sheets_load(tmp_path):
    (tmp_path / "a.png").write_bytes(b"x" * 1000)
    (tmp_path / "b.png").write_bytes(b"x" * 500)
    (tmp_path / "s.css").write_text("p { background: url(b.png) }", encoding="utf-8")
    text = '<img src="a.png"><img src="a.png"><link rel="stylesheet" href="s.css">'
    (page,) = site(tmp_path, page=text).values()
    assert built_site.weight(page) == len(text) + 1500 + (tmp_path / "s.css").stat().st_size
