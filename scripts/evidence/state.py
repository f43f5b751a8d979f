"""The state of the sources, and the files in `evidence/` that keep results.

The state is a hash over `crates/*/src`. A commit that changes nothing there keeps its evidence.

  evidence/STATE.json    seeds of torture that passed on one state, by the options of torture
  evidence/mutants.json  the last result of each planted defect
  evidence/runs.json     the last result of each long test
"""

import datetime
import hashlib
import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("EVIDENCE_FOLDER", ROOT / "evidence")).resolve()
MUTANTS, RUNS = FOLDER / "mutants.json", FOLDER / "runs.json"
OTHERS = {MUTANTS.name, RUNS.name}


def git(*words):
    return subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True).stdout.decode()


def listed(*patterns):
    """The files of the tree, with those that are not committed yet."""
    names = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns).split("\0")
    return sorted(name for name in names if name and (ROOT / name).is_file())


def state():
    """The hash, in 16 digits."""
    digest = hashlib.sha256()
    for name in listed(":(glob)crates/*/src/**"):
        content = (ROOT / name).read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def here():
    """The commit and the day, for a result; a `+` stands for changes in `crates/*/src` that are not committed."""
    changes = git("status", "--porcelain", "--", ":(glob)crates/*/src/**")
    return {"commit": git("rev-parse", "--short", "HEAD").strip() + ("+" if changes.strip() else ""),
            "date": datetime.date.today().isoformat()}


def first_seed(of):
    """The first seed of the ranges for a state. It follows from the state, so sources cannot be tuned to it."""
    return int(of[:8], 16)


def load(of):
    return {"state": of, "torture": {}} | read(FOLDER / f"{of}.json", {})


def load_all():
    """The results of torture on all states."""
    return [read(path, {}) for path in sorted(FOLDER.glob("*.json")) if path.name not in OTHERS]


def save(kept):
    write(FOLDER / f"{kept['state']}.json", json.dumps(kept, indent=1, sort_keys=True))


def load_mutants():
    return read(MUTANTS, {})


def save_mutants(results):
    """One line for each defect, so that results of two branches merge."""
    lines = [f"{json.dumps(name)}: {json.dumps(of, sort_keys=True)}" for name, of in sorted(results.items())]
    write(MUTANTS, "{\n" + ",\n".join(lines) + "\n}")


def load_runs():
    return read(RUNS, [])


def save_runs(runs):
    write(RUNS, json.dumps(runs, indent=1, sort_keys=True, ensure_ascii=False))


def read(path, otherwise):
    return json.loads(path.read_text()) if path.is_file() else otherwise


def write(path, text):
    """Replaces the whole file at once: an interrupted run keeps the results before it."""
    path.parent.mkdir(exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(text + "\n")
    new.replace(path)
