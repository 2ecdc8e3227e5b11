"""What tests of the command line share."""

import json


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def files_in(folder):
    return {path.name for path in folder.iterdir()} - {"coin.py", "__pycache__"}
