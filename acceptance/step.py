#!/usr/bin/env python3
"""Command of a step: `step.py SOCKET SUITE STEP` asks the helper and prints its answer. Uses the standard library
only."""

import json
import socket
import sys

if __name__ == "__main__":
    path, suite, step = sys.argv[1:4]
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(280)
        try:
            peer.connect(path)
            peer.sendall(json.dumps({"suite": suite, "step": step}).encode() + b"\n")
            with peer.makefile() as lines:
                answer = lines.readline()
        except OSError as error:
            answer = json.dumps(
                {"success": False, "platform": "weft", "error": f"the helper doesn't answer: {error}"}
            )
    sys.stdout.write(answer or '{"success": false, "platform": "weft", "error": "the helper ended"}\n')
