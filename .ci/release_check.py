"""`make release-check`: builds wheel and sdist, and tries the wheel as a stranger would.

For each Python that is found: an empty virtual environment, the wheel with the pinned versions and nothing else, and
from an empty folder the commands of `TRIED`. What was tried is copied to dist/ if all of it went well. A Python that
is not there is named and not tried; with none at all the check fails. `PYTHONS="/a/python /b/python"` names some.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13")
LARGEST = 2_000_000  # bytes of a file in the package
IN_SDIST = (
    "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "CITATION.cff", "docs/", "tests/", "src/rasf/",
    "lab/results/reacher.npz",
)  # fmt: skip
IMPORT = "import importlib.metadata, rasf; assert rasf.__version__ == importlib.metadata.version('rasf')"
LEARN = """
import gymnasium, numpy, rasf
library = rasf.learn("rasf/Grid-v0", tasks=2, steps_per_task=200, seed=0)
library.save("grid.rasf")
again, obs = rasf.load("grid.rasf"), gymnasium.make("rasf/Grid-v0").reset(seed=0)[0]
w, risk = library.policies[0].w, rasf.MeanVariance(-1.0)
assert int(again.act(obs, w, risk)) == int(library.act(obs, w, risk))
numpy.testing.assert_array_equal(again.scores(obs, w, risk).values, library.scores(obs, w, risk).values)
"""
NETWORKS = """
import rasf
library = rasf.learn("rasf/Grid-v0", agent="rasfdqn", tasks=2, steps_per_task=200, seed=0)
library.save("networks.rasf")
assert len(rasf.load("networks.rasf").policies) == 2
"""
# every warning is an error, as in the tests
TRIED = {
    "import": ("python", "-W", "error", "-c", IMPORT),
    "rasf --version": ("rasf", "--version"),
    "rasf claims": ("rasf", "claims"),
    "learn, save, load, act": ("python", "-W", "error", "-c", LEARN),
    "the same with networks": ("python", "-W", "error", "-c", NETWORKS),
    "rasf reproduce grid": ("rasf", "reproduce", "grid", "--out", "out"),
}
Row = tuple[str, str, str, float]  # where, what, how it went, seconds


def main(given: list[str]) -> int:
    pythons = found_pythons(given)
    missing = [version for version in VERSIONS if version not in pythons]
    if missing:
        print(f"not here, so not tried: Python {', '.join(missing)}")
    changed = run(["git", "status", "--short"], ROOT).splitlines()
    if changed:
        print(f"the tree differs from the last commit in {len(changed)} places; what is built is the tree")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="rasf-release-") as name:
        scratch = Path(name)
        built = scratch / "dist"
        if measure(rows, "tree", "build wheel and sdist", lambda: build(built)):
            wheel, sdist = next(built.glob("*.whl")), next(built.glob("*.tar.gz"))
            measure(rows, "wheel", f"no file over {LARGEST // 1_000_000} MB", lambda: check_sizes(wheel))
            measure(rows, "sdist", "has tests, docs and licence", lambda: check_sdist(sdist))
            measure(rows, "sdist", "builds the same wheel", lambda: check_rebuilt(sdist, wheel, scratch / "again"))
            for version, python in pythons.items():
                rows += tried(version, python, wheel, scratch / version)
        failed = [row for row in rows if row[2] != "ok"]
        if pythons and not failed:
            shutil.copytree(built, ROOT / "dist", dirs_exist_ok=True)
    print()
    for where, what, how, seconds in rows:
        print(f"{where:6} {what:28} {how:7} {seconds:6.1f} s")
    print(f"\ntried on {len(pythons)} of {len(VERSIONS)} Pythons, {len(failed)} of {len(rows)} checks failed")
    return int(bool(failed) or not pythons)


def found_pythons(given: list[str]) -> dict[str, str]:
    """Interpreters by version: those given, or the first of each version on the path or among pyenv's that runs."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    usual = [name for version in VERSIONS for name in (f"python{version}", *pyenv.glob(f"{version}.*/bin/python"))]
    found: dict[str, str] = {}
    for python in map(str, given or usual):
        show = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        try:  # pyenv's shims are there for versions that are not switched on, and fail
            found.setdefault(run(show, ROOT).strip(), python)
        except (OSError, subprocess.CalledProcessError):
            if given:
                raise
    return {version: found[version] for version in sorted(found)}


def build(out: Path, source: Path = ROOT, *kinds: str) -> None:
    run([sys.executable, "-m", "build", *(kinds or ("--sdist", "--wheel")), "--outdir", str(out), str(source)], ROOT)


def check_sizes(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        large = [f"{one.filename} ({one.file_size:,} bytes)" for one in files.infolist() if one.file_size > LARGEST]
    if large:
        raise ValueError(f"too large: {', '.join(large)}")


def check_sdist(sdist: Path) -> None:
    with tarfile.open(sdist) as files:
        names = [name.partition("/")[2] for name in files.getnames()]
    lacking = [wanted for wanted in IN_SDIST if not any(name.startswith(wanted) for name in names)]
    if lacking:
        raise ValueError(f"not in the sdist: {', '.join(lacking)}")


def check_rebuilt(sdist: Path, wheel: Path, folder: Path) -> None:
    with tarfile.open(sdist) as files:
        files.extractall(folder, filter="data")
    build(folder / "dist", next(folder.iterdir()), "--wheel")
    first, again = (contents(one) for one in (wheel, next((folder / "dist").glob("*.whl"))))
    if first != again:
        raise ValueError(f"the wheels differ in {sorted({name for name, _ in first ^ again})}")


def contents(wheel: Path) -> set[tuple[str, int]]:
    with zipfile.ZipFile(wheel) as files:
        return {(one.filename, one.CRC) for one in files.infolist()}


def tried(version: str, python: str, wheel: Path, folder: Path) -> Iterator[Row]:
    """The wheel in an environment of its own; nothing else is tried if it cannot be installed."""
    rows: list[Row] = []
    binaries, empty = folder / "venv" / "bin", folder / "empty"

    def install() -> None:
        empty.mkdir(parents=True)
        run([python, "-m", "venv", str(folder / "venv")], ROOT)
        pip = [str(binaries / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, "-c", str(ROOT / "constraints.txt"), str(wheel)], empty)

    if measure(rows, version, "install", install):
        for what, (program, *arguments) in TRIED.items():
            command = [str(binaries / program), *arguments]
            measure(rows, version, what, lambda command=command: run(command, empty))
    shutil.rmtree(folder, ignore_errors=True)  # a gigabyte each
    return iter(rows)


def measure(rows: list[Row], where: str, what: str, do: Callable[[], object]) -> bool:
    """Do it, note how it went; a failure is told at once and does not end the rest."""
    print(f"{where}: {what} ...", flush=True)
    begin = time.perf_counter()
    try:
        do()
        how = "ok"
    except subprocess.CalledProcessError as error:
        how = "FAILED"
        print(f"{error}\n{error.stdout[-2000:]}{error.stderr[-4000:]}")
    except (OSError, ValueError) as error:
        how = "FAILED"
        print(error)
    rows.append((where, what, how, time.perf_counter() - begin))
    return how == "ok"


def run(command: list[str], folder: Path) -> str:
    """What a command prints; it must end well. It sees no PYTHONPATH, or it might import the tree."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
