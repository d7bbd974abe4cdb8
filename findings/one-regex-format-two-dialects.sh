#!/usr/bin/env bash
# jsonschema-rs 0.61.0: whether an invalid `pattern` is an error of the metaschema depends on the draft, and the format
# `regex` is not the engine: it refuses `(?i)a`, which compiles and matches.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/pip install -qq --disable-pip-version-check jsonschema-rs==0.61.0
cat > patterns.py <<'PY'
import sys

import jsonschema_rs

DRAFTS = {"07": "http://json-schema.org/draft-07/schema#", "2020-12": "https://json-schema.org/draft/2020-12/schema"}
seen = {}
for draft, uri in DRAFTS.items():
    metaschema = jsonschema_rs.validator_for({"$schema": uri, "$ref": uri}, validate_formats=True)
    schema = {"$schema": uri, "pattern": "(?i)a"}
    try:
        compiled = jsonschema_rs.validator_for(schema).is_valid("A")
    except jsonschema_rs.ValidationError:
        compiled = None
    seen[draft] = compiled, metaschema.is_valid(schema)
    print(f"draft {draft}: compiled and matches: {compiled}; the metaschema with formats accepts it: {seen[draft][1]}")
sys.exit(seen != {"07": (None, False), "2020-12": (True, False)})
PY
env/bin/pip list 2>/dev/null | grep -E '^jsonschema'
env/bin/python patterns.py
