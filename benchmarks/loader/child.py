"""One case in a process of its own: reads a JSON request, prints a JSON result as its last line."""

from __future__ import annotations

import json
import logging
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from .documents import Documents
from .meter import versions


def main() -> None:
    """Run the case that the first argument asks for: `{"case": "module:function", …}`."""
    request: dict[str, Any] = json.loads(sys.argv[1])
    logging.disable(logging.WARNING)
    module, _, function = request.pop("case").partition(":")
    note = Path(request.pop("documents")) / "documents.json"
    documents = Documents(**json.loads(note.read_text()))
    case = getattr(import_module(f".{module}", __package__), function)
    names = request.pop("versions", [])
    result = case(documents, **request)
    sys.stdout.flush()
    print("\n" + json.dumps({**result, "versions": versions(names)}), flush=True)
    # Some peers leave threads behind that would keep the process waiting.
    os._exit(0)


if __name__ == "__main__":
    main()
