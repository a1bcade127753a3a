"""Fits a line by stochastic gradient descent, 200 steps. It reads its checkpoint and writes one every 20 steps.

Arguments: the state folder, the output folder, seconds per step, and how it misbehaves; `steps=400` for more steps.
"""

import json
import os
import random
import signal
import sys
import time

EVERY = 20
state, output, pause, *odd = sys.argv[1:]
STEPS = next((int(word.removeprefix("steps=")) for word in odd if word.startswith("steps=")), 200)
checkpoint = os.path.join(state, "checkpoint.json")
weights, step, began = [0.0, 0.0], 0, 0
notices: list[int] = []


def save() -> None:
    # Not atomic, as many programs do it.
    with open(checkpoint, "w") as file:
        bad = "poisoned-checkpoint" in odd and step == 100 and not began
        json.dump({"weights": weights, "step": step, "bad": bad}, file)
    print("saved", step, flush=True)
    if "commit" in odd:
        mark = os.path.join(state, ".commit")
        open(mark, "w").close()
        while os.path.exists(mark):
            time.sleep(0.01)


if os.path.exists(checkpoint):
    with open(checkpoint) as file:
        found = json.load(file)
    if found["bad"]:
        sys.exit("cannot read the checkpoint")
    weights, step = found["weights"], found["step"]
print("start", step, flush=True)
if "save-at-term" in odd:
    signal.signal(signal.SIGTERM, lambda *_: notices.append(step))
began = step
while step < STEPS:
    if "fail-once" in odd and step == 100 and not began:
        sys.exit(3)
    x = random.Random(step).uniform(-1, 1)
    error = weights[0] + weights[1] * x - (0.5 - 2 * x)
    weights = [weights[0] - 0.1 * error, weights[1] - 0.1 * error * x]
    step += 1
    time.sleep(float(pause))
    if step % EVERY == 0 or notices:
        save()
        if notices:
            sys.exit(0)
        if "poisoned-checkpoint" in odd and step == 100 and not began:
            sys.exit("cannot go on")
        while "wait" in odd and step == 100 and not began:
            time.sleep(1)
with open(os.path.join(output, "weights"), "w") as file:
    json.dump(weights, file)
