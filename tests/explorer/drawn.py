"""Reading pictures in tests."""

import xml.etree.ElementTree as ET


def parse(markup):
    """The root of an SVG, tags without their namespace."""
    root = ET.fromstring(markup)
    for node in root.iter():
        node.tag = node.tag.split("}")[1]
    return root


def of_class(root, name):
    return [node for node in root.iter() if name in (node.get("class") or "").split()]


def words(root):
    return [node.text for node in root.iter("text")]
