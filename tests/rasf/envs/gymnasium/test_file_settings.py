"""Which settings of an environment a file may choose, and what `make_kwargs` makes of the others."""

from dataclasses import replace

import pytest

from rasf.envs.gymnasium.description import EnvironmentDescription
from rasf.envs.gymnasium.file_settings import refused
from rasf_lab.suite.cases import case_names, find_case

ROAD = "rasf/Highway-v0"


def from_file(env_id, limit=None, /, **kwargs):
    made = EnvironmentDescription(env_id, kwargs, {"kind": "discrete", "n": 2, "start": 0}, 2, 0, 2, None, None, limit)
    return EnvironmentDescription.from_json(made.to_json())


def test_settings_of_known_environments_make_them_again():
    for env_id, kwargs in [
        ("rasf/Grid-v0", {"slip": 0.0, "layout": "SG", "render_mode": "ansi"}),
        ("rasf/FourRoom-v0", {"layout": "S.\n.G", "trap_probability": 0.5, "step_limit": 3}),
        ("rasf/Reacher-v0", {"targets": [[0.1, 0.0]], "risky": [0], "episode_length": 20, "engine": "mujoco"}),
        ("rasf/Machines-v0", {"count": 1}),
        (ROAD, {"config": {"duration": 6, "vehicles_count": 8}, "compiled": False}),
        (ROAD, {"config": {"other_vehicles_type": "highway_env.vehicle.behavior.DefensiveVehicle"}}),
        ("mo-highway-v0", {"config": {"observation": {"type": "Kinematics", "features": ["x", "vx"]}}}),
        ("FrozenLake-v1", {"desc": ["SF", "FG"], "map_name": None, "is_slippery": False}),
        ("CartPole-v1", {"sutton_barto_reward": True}),
        ("minecart-v0", {}),
        ("Own/Unheard-of-v3", {}),
    ]:
        assert from_file(env_id, **kwargs).make_kwargs() == kwargs
        assert from_file(env_id, 7, **kwargs).make_kwargs() == kwargs | {"max_episode_steps": 7}


def test_every_case_of_the_suite_is_made_from_its_file():
    for case in map(find_case, case_names()):
        kwargs = dict(case.env_kwargs)
        limit = kwargs.pop("max_episode_steps", None)
        description = from_file(case.env, limit, **kwargs)
        assert description.make_kwargs() == kwargs | ({} if limit is None else {"max_episode_steps": limit})


def test_what_the_registration_says_anyway_is_left_out():
    assert from_file(ROAD, road="highway").make_kwargs() == {}
    assert from_file("Blackjack-v1", sab=True, natural=True).make_kwargs() == {"natural": True}
    pytest.importorskip("mo_gymnasium")
    from rasf.envs.registration import registered_kwargs

    path = registered_kwargs("minecart-deterministic-v0")["config"]  # of a file in the package
    assert from_file("minecart-deterministic-v0", config=path).make_kwargs() == {}


REFUSED = [
    (ROAD, {"config": {"other_vehicles_type": "evil_mod.X"}}, "config.other_vehicles_type"),
    (ROAD, {"config": {"other_vehicles_type": "highway_env.os.X"}}, "config.other_vehicles_type"),
    (ROAD, {"config": {"other_vehicles_type": ["evil_mod.X"]}}, "config.other_vehicles_type"),
    (ROAD, {"config": {"vehicles_count": 30_000_000}}, "config.vehicles_count"),
    (ROAD, {"config": {"vehicles_count": True}}, "config.vehicles_count"),
    (ROAD, {"config": {"duration": 1e300}}, "config.duration"),
    (ROAD, {"config": {"duration": float("nan")}}, "config.duration"),
    (ROAD, {"config": {"observation": {"type": "GrayscaleObservation"}}}, "config.observation.type"),
    (ROAD, {"config": {"observation": {"vehicles_count": 10**9}}}, "config.observation.vehicles_count"),
    (ROAD, {"config": {"action": {"type": "MultiAgentAction"}}}, "config.action.type"),
    (ROAD, {"config": {"action": {"action_config": {"type": "X"}}}}, "config.action.action_config"),
    (ROAD, {"config": {"import_module": "evil_mod"}}, "config.import_module"),
    (ROAD, {"config": [["other_vehicles_type", "evil_mod.X"]]}, "config"),
    (ROAD, {"road": "merge"}, "road"),
    (ROAD, {"render_mode": "human"}, "render_mode"),
    ("mo-highway-v0", {"config": {"other_vehicles_type": "evil_mod.X"}}, "config.other_vehicles_type"),
    ("racetrack-v0", {"config": {"other_vehicles_type": "evil_mod.X"}}, "config"),
    ("minecart-v0", {"config": "/etc/passwd"}, "config"),
    ("Ant-v5", {"xml_file": "/etc/passwd"}, "xml_file"),
    ("GymV26Environment-v0", {"env_id": "evil_mod:X-v0"}, "env_id"),
    ("rasf/Grid-v0", {"entry_point": "evil_mod:X"}, "entry_point"),
    ("rasf/Grid-v0", {"vector_kwargs": {}}, "vector_kwargs"),
    ("rasf/Grid-v0", {"additional_wrappers": []}, "additional_wrappers"),
    ("rasf/Grid-v0", {"layout": "S" * 10_001}, "layout"),
    ("rasf/Machines-v0", {"count": 12}, "count"),
    ("rasf/Inventory-v0", {"capacity": 10**6}, "capacity"),
    ("rasf/Inventory-v0", {"demand": [0.0] * 10**4}, "demand"),
    ("rasf/Reacher-v0", {"targets": [[0.1, 0.0]] * 1000}, "targets"),
    ("FrozenLake-v1", {"desc": ["S" * 10**4]}, "desc"),
    ("Own/Unheard-of-v3", {"size": 3}, "size"),
]


def test_any_other_setting_of_a_file_is_refused_and_may_be_given_by_the_user():
    for env_id, kwargs, named in REFUSED:
        description = from_file(env_id, **kwargs)
        with pytest.raises(ValueError, match=f"the file sets {named} of {env_id} to ") as raised:
            description.make_kwargs()
        assert len(str(raised.value)) < 300
        assert "\n" not in str(raised.value)
        trusted = replace(description, from_file=False)  # as `learn` made it in this process
        assert trusted.make_kwargs() == kwargs
        name = next(iter(kwargs))
        assert description.make_kwargs(**{name: 1})[name] == 1


def test_an_id_that_names_a_module_is_refused_even_where_no_header_was_read():
    described = replace(from_file("X-v0"), id="evil_mod:X-v0")  # as a Minari dataset may have it
    with pytest.raises(ValueError, match="env must be given by you"):
        described.make_kwargs()


def test_a_deep_value_is_told_in_short():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert refused(ROAD, {"config": deep}) == ("config", deep)
    described = replace(from_file(ROAD), kwargs={"config": deep})
    with pytest.raises(ValueError, match="the file sets config") as raised:
        described.make_kwargs()
    assert len(str(raised.value)) < 300
    while deep:  # by itself, the interpreter would free it recursively
        deep = deep.pop()
