"""For tests that kill workers: the reacher experiment, with a checkpoint and a pause after every chunk of training."""

import time

from rasf_lab.paper.reacher.runs import ReacherExperiment


class Often(ReacherExperiment):
    def execute(self, runs, scratch):
        began = "goes on" if (scratch / "lanes.checkpoint").exists() else "begins"
        self.say(f"{began} with {len(runs)} lanes")
        return super().execute(runs, scratch)

    def say(self, sentence):
        super().say(sentence)
        time.sleep(0.2)


OFTEN, OFTEN_NAME = Often(checkpoint_every_s=0.0), f"{__name__}:OFTEN"
