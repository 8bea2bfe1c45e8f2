"""Where things are: the built examples, and the other formats of an instance, written on demand."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def example(name):
    """The path of a built example of the crate."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    path = target / "release" / "examples" / name
    if not path.is_file():
        raise SystemExit(
            f"{path} is not there: cargo build --release -p relayout-layouts --examples"
        )
    return path


def encoded(path, form, folder):
    """The instance as `cfn` or `wcnf` in `folder` (written once), or the file itself for `json`."""
    if form == "json":
        return Path(path)
    name = Path(path).name.removesuffix(".zst").removesuffix(".json")
    out = Path(folder) / f"{name}.{form}"
    if not out.is_file():
        subprocess.run([example("convert"), path, form, out], check=True)
    return out


def generate(kind, settings, out):
    """Writes a generated instance unless it is there."""
    if not Path(out).is_file():
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        pairs = [f"{key}={value}" for key, value in settings.items()]
        subprocess.run(
            [example("generate"), kind, *pairs, out], check=True, stdout=subprocess.DEVNULL
        )
    return Path(out)
