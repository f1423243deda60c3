"""The program that fills secrets into exported files: into parsed values, not into the text."""

from __future__ import annotations

FILL = '''#!/usr/bin/env python3
"""Write a file with $NAME replaced by the environment's variables, readable by its owner only: fill.py FROM TO.

In values of JSON and YAML, so that whatever a password contains is written as the format needs it.
"""
import json
import os
import re
import sys

import yaml


def names(value, found):
    if isinstance(value, dict):
        return {key: names(one, found) for key, one in value.items()}
    if isinstance(value, list):
        return [names(one, found) for one in value]
    if isinstance(value, str):
        return re.sub(r"\\$([A-Z][A-Z0-9_]*)", lambda match: found[match[1]], value)
    return value


source, target = sys.argv[1:]
text = open(source, encoding="utf-8").read()
is_json = source.endswith(".json")
try:
    filled = names(json.loads(text) if is_json else yaml.safe_load(text), os.environ)
except KeyError as error:
    sys.exit(f"fill.py: {error.args[0]} isn't set")
made = json.dumps(filled, indent=4) + "\\n" if is_json else yaml.safe_dump(filled, sort_keys=False, width=1000)
beside = f"{target}.new"
with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
    file.write(made)
os.replace(beside, target)
'''
