"""The state of the sources that evidence is about, and the file that keeps the evidence of it.

The state is a hash over `crates/*/src`: a commit that changes nothing there leaves the evidence as it is. `evidence/STATE.json`
says which seeds of torture passed, by the options that they were run with, and which defect was caught by which test.
"""

import hashlib
import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("EVIDENCE", ROOT / "evidence")).resolve()


def listed(*patterns):
    """Files of the tree, those that are not committed yet among them."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    names = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
    return sorted(name for name in names if name and (ROOT / name).is_file())


def state():
    """The hash, in 16 digits."""
    digest = hashlib.sha256()
    for name in listed(":(glob)crates/*/src/**"):
        content = (ROOT / name).read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def first_seed(of):
    """Where ranges of seeds begin that count as evidence for a state: nobody can tune the sources to them."""
    return int(of[:8], 16)


def load(of):
    path = FOLDER / f"{of}.json"
    kept = json.loads(path.read_text()) if path.is_file() else {}
    return {"state": of, "torture": {}, "mutants": {}} | kept


def save(kept):
    """Written as a whole, or not at all: whoever is interrupted goes on from the last part that passed."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{kept['state']}.json"
    new = path.with_suffix(".new")
    new.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    new.replace(path)
