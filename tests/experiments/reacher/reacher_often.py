"""A kind for tests that kill its workers: `reacher`, with a checkpoint and a pause after every chunk of training."""

import time

from rasf.experiments.reacher.kind import ReacherKind


class Often(ReacherKind):
    def execute(self, runs, scratch):
        began = "goes on" if (scratch / "lanes.checkpoint").exists() else "begins"
        self.say(f"{began} with {len(runs)} lanes")
        return super().execute(runs, scratch)

    def say(self, sentence):
        super().say(sentence)
        time.sleep(0.2)


OFTEN, OFTEN_NAME = Often(checkpoint_every_s=0.0), f"{__name__}:OFTEN"
