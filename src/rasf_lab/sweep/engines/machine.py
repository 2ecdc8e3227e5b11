"""Cores, memory and GPUs of this machine. This module does not load JAX, which would allocate GPU memory."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path

from rasf.files import user_cache

_GB = 1e9


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_gb() -> float:
    """Return the memory of this machine in GB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GB


def gpus() -> list[str]:
    """Return the ids of the GPUs that JAX can use; empty if JAX_PLATFORMS is "cpu" or JAX has no CUDA plugin."""
    if os.environ.get("JAX_PLATFORMS") == "cpu" or not any(map(_is_installed, ("xla_cuda12", "xla_cuda13"))):
        return []
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        ids = [each.strip() for each in chosen.split(",")]
        return list(takewhile(lambda each: each and not each.startswith("-"), ids))  # as in CUDA, -1 ends the list
    if shutil.which("nvidia-smi") is None:
        return []
    asked = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return answer.stdout.split() if answer.returncode == 0 else []


def jax_cache() -> str:
    """Return the folder in which JAX keeps compiled programs. Each host has its own folder, as processors differ."""
    return str(user_cache() / f"jax-{socket.gethostname()}")


def _is_installed(plugin: str) -> bool:
    return find_spec("jax_plugins") is not None and find_spec(f"jax_plugins.{plugin}") is not None


def resident_gb(pid: int | None) -> float:
    """Return the memory in GB that a process uses now; 0 if unknown."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / _GB


def forget_peak() -> None:
    """Reset the peak memory of this process. This has an effect only on Linux."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_gb() -> float:
    """Return the peak memory in GB of this process since `forget_peak`; 0 if unknown."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) * 1024 / _GB for line in lines if line.startswith("VmHWM")), 0.0)
