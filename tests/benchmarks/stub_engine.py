"""An engine that runs nothing: answers with fixed seconds, refuses to open, or dies, by its name."""

import json
import os
import sys

if __name__ == "__main__":
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "time" and sys.argv[1] == "dying":
            print("about to die", file=sys.stderr, flush=True)
            os.abort()
        if command["do"] == "open" and sys.argv[1] == "refusing":
            print(json.dumps({"failed": "ValueError: no"}), flush=True)
        else:
            seconds = 0.5 if command["do"] == "open" else [3.0, 1.0, 2.0]
            print(json.dumps({"seconds": seconds}), flush=True)
