#!/usr/bin/env python3
"""A filter of submissions: one line of JSON in, one line of JSON out, for ever.

In the configuration:

    [[ingest.filter]]
    name = "site"
    command = ["/etc/eddy/filter.py"]
    timeout = "5s"             # for one submission; 5 s where unset
    on_failure = "refuse"      # or "accept": what becomes of a submission that it does not rule in time

Messages on standard error go to the log of the instance. It ends when its input does.
"""

import json
import sys

HOUR = 3600


def rule(job):
    """What is done with a submission: None lets it through, a text refuses it, a dict changes fields."""
    # What the job would have with all defaults in it; null when it would be refused as it is.
    would = job["effective"] or job
    limit = would["time_limit"]
    if job["count"] > 1000 and job["user_name"] != "root":
        return f"{job['count']} jobs at a time; at most 1000 are allowed here"
    if job["queue"] == "debug" and (limit is None or limit > HOUR):
        return {"time_limit": HOUR}
    if job["queue"] is None and limit is not None and limit > 24 * HOUR:
        return {"queue": "long"}
    if job["urgency"] > 16 and would["account"] != "operations":
        return {"urgency": 16}
    return None


def main():
    # iter() and not a loop over the file, which would read ahead.
    for line in iter(sys.stdin.readline, ""):
        ruling = rule(json.loads(line))
        if ruling is None:
            answer = {"action": "accept"}
        elif isinstance(ruling, str):
            answer = {"action": "refuse", "reason": ruling}
        else:
            answer = {"action": "modify", "set": ruling}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
