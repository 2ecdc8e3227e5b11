"""Risk-aware transfer in reinforcement learning with successor features.

A library of policies is trained once. Without retraining, the library then acts for new reward weights and any level of
risk, and predicts the distribution of the return. In all docstrings of rasf, "the paper" is Gimelfarb, Barreto,
Sanner and Lee, Risk-Aware Transfer in Reinforcement Learning using Successor Features, NeurIPS 2021.

A public name is imported at its first use, so that `import rasf` is fast.
"""

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

__version__ = "1.0.0rc2.dev0"

_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8"))
_HOME = {  # the module that defines each public name; None for a name that is itself a module
    alias.name: node.module and f"rasf.{node.module}"
    for node in _STUB.body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}

__all__ = sorted(name for name, home in _HOME.items() if home)


_RENAMED = {"Promise": "Bounds"}


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        raise AttributeError(f"rasf.{name} was renamed to rasf.{_RENAMED[name]}")
    if name not in _HOME:
        raise AttributeError(f"module 'rasf' has no attribute {name!r}")
    home = _HOME[name]
    value = import_module(f"rasf.{name}") if home is None else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


if find_spec("gymnasium") is not None:  # without Gymnasium, all parts of rasf work except environments
    import_module("rasf.envs.registration").register_environments()
