"""A driver without a library, for tests of the suite: what it does is in the request's text."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

for line in sys.stdin:
    request = json.loads(line)
    response: dict[str, Any] = {"id": request["id"], "result": {}}
    do = request["do"]
    if do == "hello":
        name = os.environ.get("FAKE_NAME", "fake")
        response["result"] = {"client": name, "version": "1.2", "can": ["produce", "fly"]}
        response["result"]["broken"] = {"sing": "it is off key", "dance": "it stumbles"}
    elif do == "refuse":
        response = {"id": request["id"], "error": {"code": request["code"], "message": "no"}}
    elif do == "name":
        response = {"id": request["id"], "error": {"name": "OddError", "message": "odd"}}
    elif do == "die":
        print("the last words", file=sys.stderr)
        sys.exit(3)
    elif do == "environment":
        response["result"] = {"value": os.environ.get(request["name"])}
    elif do == "sleep":
        time.sleep(600)
    elif do == "late":  # the response to another request comes first
        print(json.dumps({"id": request["id"] - 1, "result": {"of": "another"}}), flush=True)
    print(json.dumps(response), flush=True)
