import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import rasf

ROOT = Path(__file__).parents[2]


def test_importing_rasf_loads_neither_jax_nor_numba_nor_scipy():
    code = "import sys, rasf; print([m for m in ('jax', 'numba', 'scipy', 'matplotlib') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_importing_rasf_registers_the_environments_of_other_packages_without_their_code():
    code = "import sys, rasf, gymnasium; gymnasium.spec('rasf/Highway-v0'); gymnasium.spec('rasf/Machines-v0');"
    code += "print(sorted(m for m in sys.modules if m.startswith('rasf_')))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "['rasf_lab', 'rasf_lab.registration']"


def test_every_public_name_loads_and_is_documented():
    for name in rasf.__all__:
        assert getattr(rasf, name).__doc__, name


def test_unknown_name_is_an_attribute_error():
    assert not hasattr(rasf, "nothing_of_the_kind")
    with pytest.raises(AttributeError, match=r"^rasf\.Promise was renamed to rasf\.Bounds$"):
        _ = rasf.Promise


def test_the_world_of_the_compiled_loop_and_libraries_load_without_gymnasium():
    code = """
import sys
sys.modules["gymnasium"] = None
import rasf, rasf.envs.reacher, rasf.deep.fused, rasf.library.networks.train
from rasf import EnvironmentDescription, TrainingProgress, learn, load
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_version_matches_the_distribution():
    from importlib.metadata import version

    assert rasf.__version__ == version("rasf")


def test_the_version_is_the_same_wherever_it_is_written():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert rasf.__version__ == version
    assert re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE) == [version]
    newest = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    assert newest.startswith(version) or (".dev" in version and newest.startswith("Unreleased"))


def test_risk_objects_score_without_numba():
    code = "import sys, rasf; rasf.Entropic(-1.0).samples([1.0, 2.0]); print('numba' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
