"""What bench/lab/objects takes from JSON.

objects_last.py RUNS.jsonl LINK WORK FIELD        the field of the last run of that work
objects_last.py store LINK NAME=VALUE..           a line of JSON of the store's counters on stdin
"""
import json
import sys

LATENCY_S = 0.02  # of link A


def last(path, link, work, field):
    fitting = [run for run in map(json.loads, open(path))
               if (run["link"], run["work"]) == (link, work) and field in run]
    print(fitting[-1][field])


def line(link, *pairs):
    it = dict(pair.split("=", 1) for pair in pairs)
    store = json.load(sys.stdin)[link]
    seconds = float(it.pop("end")) - float(it.pop("start"))
    it.update(round=int(it["round"]), seconds=seconds, gets=store["gets"], mb=store["bytes"] / 1e6)
    if "needed" in it:
        due = float(it["needed"]) / float(it.pop("rate")) / 1e6 + 10 * LATENCY_S
        it.update(needed=int(it["needed"]), due=due, times=seconds / due)
    print(json.dumps(it))


if sys.argv[1] == "store":
    line(*sys.argv[2:])
else:
    last(*sys.argv[1:])
