"""The deployment units of secure sums: parsed, and their commands started as plain processes."""

import configparser
import re
import shlex
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from repro.secagg.__main__ import main
from reproduce.paths import ROOT

UNITS = ROOT / "apps/secagg"
SERVERS = ["server-0", "server-1", "server-2"]
ANY = "127.0.0.1:0"


def settings():
    """The example's, as a host would have them."""
    lines = (UNITS / "secagg.env").read_text().splitlines()
    pairs = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert set(pairs) == {"CLIENTS", "SERVERS", "TIME_LIMIT", "PARAMETERS", "LISTEN", "KEYS"}
    return pairs


def compose(text, given):
    """A text of the compose file with its variables filled in, as compose does it."""

    def fill(match):
        name, kind, rest = match.groups()
        if name in given:
            return given[name]
        assert kind == ":-", f"{name} is needed: {rest}"
        return rest

    return re.sub(r"\$\{(\w+)(?:(:-|:\?)([^}]*))?\}", fill, text)


def from_compose(name, given):
    """The arguments with which a container would start, with its volume's folder on this machine."""
    whole = yaml.safe_load((UNITS / "compose.yaml").read_text())["services"]
    assert set(whole) == {"parameters", *SERVERS}
    service = whole[name]
    assert service["profiles"] == [name]
    outside, inside, mode = compose(service["volumes"][0], given).split(":")
    assert mode == "ro"
    dockerfile = ROOT / "apps/secagg" / service["build"]["context"] / service["build"]["dockerfile"]
    (entry,) = re.findall(r'ENTRYPOINT \["python", "-m", "(.*)"\]', dockerfile.read_text())
    assert entry == "repro.secagg"
    words = [compose(word, given) for word in service["command"]]
    return [outside if word == inside else word for word in words]


def from_systemd(name, given, key="ExecStart"):
    """The arguments of a unit's command."""
    role, _, number = name.partition("-")
    file = UNITS / f"secagg-{role}{'@' if number else ''}.service"
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str
    unit.read_string(file.read_text())
    assert unit["Service"]["EnvironmentFile"] == "/etc/secagg/secagg.env"
    line = unit["Service"][key].replace("%i", number)
    words = shlex.split(re.sub(r"\$\{(\w+)\}", lambda match: given[match[1]], line))
    assert words[:3] == ["/opt/secagg/bin/python", "-m", "repro.secagg"]
    return words[3:]


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """One folder for each host, with its own certificate only."""
    made = tmp_path_factory.mktemp("hosts") / "all"
    assert main(["authority", str(made), "--servers", "3", "--clients", "2"]) == 0
    for name in ("parameters", *SERVERS):
        host = made.parent / name
        host.mkdir()
        for file in (f"{name}.pem", "authority.pem"):
            (host / file).write_bytes((made / file).read_bytes())
            (host / file).chmod(0o600)
    return made


def start(stack, words):
    """One process; the address that it listens on."""
    process = subprocess.Popen(
        [sys.executable, "-m", "repro.secagg", *words, "--until-stdin-ends"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    stack.enter_context(process)
    stack.callback(process.kill)
    return process.stdout.readline().strip().rpartition(" ")[2]


@pytest.mark.parametrize("way", [from_compose, from_systemd])
def test_the_units_start_servers_that_add_up(way, keys, capsys):
    given = {**settings(), "CLIENTS": "2", "LISTEN": ANY}
    with ExitStack() as stack:
        given["KEYS"] = str(keys.parent / "parameters")
        given["PARAMETERS"] = start(stack, way("parameters", given))
        places = []
        for name in SERVERS:
            given["KEYS"] = str(keys.parent / name)
            places.append(start(stack, way(name, given)))
        common = ["--folder", str(keys), "--clients", "2", "--parameters", given["PARAMETERS"]]
        assert main(["check", *common, "--servers", *places]) == 0
        assert "the sum of 2 vectors of 1000 numbers is right" in capsys.readouterr().out
        assert main(["doctor", "client-0", *common, "--servers", *places]) == 0
        assert "FAILED" not in capsys.readouterr().out


def test_systemd_examines_a_host_before_it_starts(keys, capsys):
    """With this host's certificate; and refuses one that is not there."""
    given = {**settings(), "LISTEN": ANY, "KEYS": str(keys.parent / "server-1")}
    assert main(from_systemd("server-1", given, "ExecStartPre")) == 0
    assert main(from_systemd("server-0", given, "ExecStartPre")) == 1
    assert "FAILED: no certificate of server-0" in capsys.readouterr().out


def test_a_setting_without_a_default_is_asked_for():
    for missing in ("CLIENTS", "PARAMETERS", "KEYS"):
        given = {key: value for key, value in settings().items() if key != missing}
        with pytest.raises(AssertionError, match=f"{missing} is needed"):
            from_compose("server-2", given)
    assert Path(UNITS / "README.md").is_file()
