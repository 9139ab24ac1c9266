"""A worker that holds as many mebibytes as its argument says, and reports what it spent."""

import json
import sys

from benchmarks.child import spent

if __name__ == "__main__":
    memory = bytearray(int(sys.argv[1]) << 20)
    print(json.dumps(spent()))
