"""Instances of `layout-selection/1` as plain JSON, and the price of an assignment.

The price is computed from the definition alone, apart from every solver and from the crate's own checker: what all of them
claim is held against it.
"""

import json
from pathlib import Path


def load(path):
    """The instance in a `.json` or `.json.zst` file, as the dictionary that the file holds."""
    data = Path(path).read_bytes()
    if str(path).endswith(".zst"):
        import zstandard

        data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    instance = json.loads(data)
    if instance.get("format") != "layout-selection/1":
        raise ValueError(f"{path}: format is {instance.get('format')!r}, expected 'layout-selection/1'")
    return instance


def stem(path):
    """The file's name without its endings."""
    return Path(path).name.removesuffix(".zst").removesuffix(".json")


def producers(instance):
    """The operator that writes each tensor."""
    by_tensor = [None] * len(instance["tensors"])
    for o, operator in enumerate(instance["operators"]):
        by_tensor[operator["output"]] = o
    return by_tensor


def readers(instance):
    """Per tensor, (operator, argument position) of everything that reads it."""
    by_tensor = [[] for _ in instance["tensors"]]
    for o, operator in enumerate(instance["operators"]):
        for position, tensor in enumerate(operator["inputs"]):
            by_tensor[tensor].append((o, position))
    return by_tensor


def price(instance, assignment):
    """The objective of one configuration index per operator; `None` when a conversion is impossible."""
    operators = instance["operators"]
    if len(assignment) != len(operators):
        raise ValueError(f"{len(assignment)} choices for {len(operators)} operators")
    total = 0
    produced = {}
    requested = {}
    for operator, choice in zip(operators, assignment):
        config = operator["configs"][choice]
        total += config["cost"]
        produced[operator["output"]] = config["out"]
        for tensor, layout in zip(operator["inputs"], config["in"]):
            requested.setdefault(tensor, set()).add(layout)
    for tensor, layouts in requested.items():
        row = instance["tensors"][tensor]["transpose"][produced[tensor]]
        for layout in layouts - {produced[tensor]}:
            if row[layout] is None:
                return None
            total += row[layout]
    return total
