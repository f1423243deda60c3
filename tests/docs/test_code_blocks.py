"""Each code block of README and docs is read by the shell, command or file reader that it is for."""

from __future__ import annotations

import ast
import configparser
import inspect
import json
import re
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from oslo_config import cfg

from tests.docs.blocks import Block, blocks, commands, here_documents
from tests.docs.commandreaders import is_known
from tests.docs.yamlreaders import read_yaml_block
from tests.helpers.smallsite import SSH_KEY
from weft.app.orderfile import load_order
from weft.config.resolve import resolve, unknown_names
from weft.config.tomltext import read_toml
from weft.generate.partitions_conf import parse
from weft.model.errors import InputErrors
from weft.sdk import PodProxy

BLOCKS = blocks()
LANGUAGES = {"sh", "yaml", "ini", "json", "toml", "conf", "python", "mermaid", "text"}
"""mermaid is generated, and compared with what generates it; text is output and drawings."""


def of(language: str) -> list[Any]:
    """Its blocks as parameters that are named by file and line."""
    return [pytest.param(block, id=block.place) for block in BLOCKS if block.language == language]


def test_every_block_names_its_language() -> None:
    """A block without one, or in one that has no reader here, would be checked by nothing."""
    assert [block.place for block in BLOCKS if block.language not in LANGUAGES] == []


@pytest.mark.parametrize("block", of("sh"))
def test_shell_block_has_commands_that_exist(block: Block, tmp_path: Path) -> None:
    """The shell reads the script, and each program of weft's or of OpenStack's client the words of its commands."""
    read = subprocess.run(["bash", "-n"], input=block.text, text=True, capture_output=True, check=False)
    assert (read.returncode, read.stderr) == (0, "")
    (tmp_path / "pod.key.pub").write_text(SSH_KEY)
    for name, text in here_documents(block.text).items():
        script = f"cat <<END\n{text}END\n"  # with what the shell puts in
        written = subprocess.run(
            ["bash"], input=script, text=True, capture_output=True, cwd=tmp_path, check=True
        )
        if name.endswith(".toml"):
            (tmp_path / "weft.toml").write_text(written.stdout)
            assert list(unknown_names(read_toml(tmp_path / "weft.toml", name))) == []
        elif name.endswith("clouds.yaml"):
            assert list(yaml.safe_load(written.stdout)) == ["clouds"]
        elif name.endswith(".ini"):
            configparser.ConfigParser().read_string(written.stdout)
        elif name.endswith(".json"):
            assert json.loads(written.stdout)
        elif name.endswith(("ufm.yaml", "traffic.yaml")):  # read as weft does by the guides' own test
            assert yaml.safe_load(written.stdout)
        else:
            load_order(written.stdout, name)
    for other in BLOCKS:  # files that a command reads
        if other.language == "json" and '"agents"' in other.text:
            (tmp_path / "order.json").write_text(other.text)
    assert [words for words in commands(block.text) if not is_known(words, tmp_path)] == []


@pytest.mark.parametrize("block", of("yaml"))
def test_each_yaml_block_parses_as_its_kind_of_file(block: Block, tmp_path: Path) -> None:
    """Orders, sites, lists of machines, agents' settings, policies: complete, or as part of a complete one."""
    read_yaml_block(block, tmp_path)


@pytest.mark.parametrize("block", of("ini"))
def test_ini_block_keeps_comments_out_of_values(block: Block, tmp_path: Path) -> None:
    """oslo.config and systemd take all that follows `=` for the value, a comment on the same line included."""
    path = tmp_path / "block.conf"
    path.write_text(block.text)
    sections: dict[str, dict[str, list[str]]] = {}
    cfg.ConfigParser(str(path), sections).parse()
    values = [value for options in sections.values() for several in options.values() for value in several]
    assert values and [value for value in values if "#" in value] == []


@pytest.mark.parametrize("block", of("json"))
def test_json_block_is_valid(block: Block) -> None:
    assert isinstance(json.loads(block.text), dict)


@pytest.mark.parametrize("block", of("toml"))
def test_toml_block_has_settings_that_exist(block: Block, tmp_path: Path) -> None:
    """Only the files that it names are missing."""
    (tmp_path / "weft.toml").write_text(block.text)
    with pytest.raises(InputErrors) as caught:
        resolve(read_toml(tmp_path / "weft.toml", "--config"), {})
    assert [str(one) for one in caught.value.errors if not re.search("file", one.allowed)] == []


@pytest.mark.parametrize("block", of("python"))
def test_python_block_calls_verbs_that_exist(block: Block) -> None:
    """Python reads it, its imports are there, and what it calls on `pods` are verbs with these arguments."""
    tree = ast.parse(block.text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert [import_module(name.name) for name in node.names]
    calls = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    verbs = [(c.func.attr, c) for c in calls if isinstance(c.func, ast.Attribute)
             and isinstance(c.func.value, ast.Name) and c.func.value.id == "pods"]  # fmt: skip
    assert verbs
    for name, call in verbs:
        given = {word.arg: None for word in call.keywords if word.arg is not None}
        inspect.signature(getattr(PodProxy, name)).bind(None, *call.args, **given)


@pytest.mark.parametrize("block", of("conf"))
def test_partitions_block_is_read_without_problems(block: Block) -> None:
    """By the reader of OpenSM's partitions file, which is compared with the real program elsewhere."""
    assert list(parse(block.text, "north").problems) == []
