import socket
import sys

import pytest

from rasf_explorer.app import page_style, serve
from rasf_explorer.drawing import palette
from rasf_explorer.views import Views


def test_a_port_that_is_taken_is_said_in_a_sentence_that_names_the_option():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"port {port} of .* cannot .*--port"):
            serve(None, port=port, show=False)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"port": -1}, "port must"),
        ({"port": 70000}, "port must"),
        ({"host": "no such host"}, "host must"),
        ({"host": "8.8.8.8"}, "host must"),
        ({"seed": -1}, "seed must"),
    ],
)
def test_bad_options_are_refused_before_anything_is_served(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        serve(None, show=False, **options)


def test_the_page_has_the_palette_of_the_pictures_in_both_themes():
    style = page_style()
    assert f"--accent:{palette.LIGHT['accent']};" in style
    assert f"--accent:{palette.DARK['accent']};" in style
    assert "http" not in style


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("", False), ("192.168.1.2", False)],
)
def test_others_are_told_to_be_able_to_connect_where_they_are(host, local, monkeypatch):
    from typer.testing import CliRunner

    from rasf.cli.main import app

    def ready_at_once(library, *, ready, **options):
        ready("http://there:8080/")

    monkeypatch.setattr("rasf_explorer.app.serve", ready_at_once)
    said = CliRunner().invoke(app, ["explore", "--host", host])
    assert said.exit_code == 0
    assert "the explorer is at http://there:8080/" in said.output
    assert ("any machine that reaches this address can use the explorer" in said.output) is not local


def test_an_environment_of_the_user_s_is_imported_for_the_file_given(library, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from rasf.cli.main import app

    served = []
    monkeypatch.setattr("rasf_explorer.app.serve", lambda library, *, env, **options: served.append(env))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    (tmp_path / "explored_world.py").write_text("")
    assert CliRunner().invoke(app, ["explore", str(library[1]), "--env", "explored_world:My-v0"]).exit_code == 0
    assert served == ["My-v0"]
    assert "explored_world" in sys.modules
    with pytest.raises(ValueError, match="env must"):
        CliRunner().invoke(app, ["explore", "--env", "a:B-v0"], catch_exceptions=False)
    view = Views(library[0], seed=0, env="My-v0").first()
    view.begin()
    view._thread.join(10)
    assert "'My-v0' is known here" in view.scene.can_run()
