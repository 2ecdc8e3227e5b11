import json
import math

from rasf.library.progress import TrainingLog, TrainingProgress


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_of_the_log_holds_differences_to_the_line_before(tmp_path):
    times = iter([10.0, 12.0, 16.0, 17.0, 17.0])
    with TrainingLog(tmp_path / "log.jsonl", lambda: next(times)) as log:
        log.add(TrainingProgress(0, 100, 50.0, 1, {"loss": 0.5, "clipped_below": 0.25, "clipped_above": 0.125}))
        assert len(lines_of(tmp_path / "log.jsonl")) == 1  # written at once
        log.add(TrainingProgress(0, 300, 40.0, 2, {"loss": float("nan")}))
        log.add(TrainingProgress(1, 30, 6.0, 0))
        log.add(TrainingProgress(1, 30, 6.0, 0))
    names = ("policy", "step", "return", "reward_per_step", "loss", "clipped", "steps_per_second", "seconds")
    assert [tuple(line[name] for name in names) for line in lines_of(tmp_path / "log.jsonl")] == [
        (0, 100, 50.0, 0.5, 0.5, 0.375, 50.0, 2.0),
        (0, 300, 40.0, -0.05, None, None, 50.0, 6.0),
        (1, 30, 6.0, 0.2, None, None, 30.0, 7.0),
        (1, 30, 6.0, None, None, None, None, 7.0),
    ]


def test_policies_that_take_turns_have_rewards_of_their_own(tmp_path):
    clock = iter(range(100))
    with TrainingLog(tmp_path / "log", lambda: float(next(clock))) as log:
        lines = [
            log.add(TrainingProgress(policy, step, total, math.nan, share=share))
            for policy, step, total, share in ((0, 10, 5.0, 0.1), (1, 10, -5.0, 0.2), (0, 30, 25.0, 0.4))
        ]
    assert [line["reward_per_step"] for line in lines] == [0.5, -0.5, 1.0]
    assert [line["seconds_left"] for line in lines] == [9.0, 8.0, 4.5]
