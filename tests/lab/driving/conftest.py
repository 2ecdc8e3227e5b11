"""highway-env's intersection changes constants of all drivers in the process, whichever test meets it first."""

import pytest


@pytest.fixture(autouse=True)
def usual_drivers(monkeypatch):
    """The constants that highway-env begins with."""
    behaviour = pytest.importorskip("highway_env.vehicle.behavior")
    for name, value in {"DISTANCE_WANTED": 10.0, "COMFORT_ACC_MAX": 3.0, "COMFORT_ACC_MIN": -5.0}.items():
        monkeypatch.setattr(behaviour.IDMVehicle, name, value)
